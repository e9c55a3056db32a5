//! Changes that a set refuses since data would be lost, and parts that a heal leaves as they are.

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind};
use tabane_striped::container::{Header, checksum};
use tabane_striped::{HealOptions, RebalanceOptions, StripedStorage};

use super::drain::put_small;
use super::groups::{heal, holders, parts_bytes};
use super::{Bed, Problems, object};

/// Headers count generations in four bits, and a description that has more cannot be read.
#[test]
fn a_set_grows_and_shrinks_as_often_as_its_descriptions_can_say() {
    let mut bed = Bed::unformed(20, "target-");
    let mut new = bed.places.split_off(6);
    let groups = vec![bed.places[..3].to_vec(), bed.places[3..].to_vec()];
    StripedStorage::form_groups(groups, false).unwrap();
    let (name, bytes) = object(1, 200_000);
    bed.open().put(name, &[&bytes]).unwrap();
    // Each target makes the smaller group another generation: the third to the fifteenth.
    for place in new.drain(..13) {
        bed.open().add(&place).unwrap();
        bed.places.push(place);
    }
    let storage = bed.open();
    let error = storage.add(&new[0]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TooManyTargets, "{error}");
    // Whoever retires the newest group makes the other one a generation; the other way round not.
    let group_of = |number: usize| storage.survey().unwrap().targets[number].group;
    let newest = group_of(18);
    let (first, last): (Vec<usize>, Vec<usize>) =
        (0..19).partition(|&number| group_of(number) != newest);
    let urls = |numbers: &[usize]| -> Vec<&str> {
        let urls = numbers.iter().map(|&number| &*bed.places[number].url);
        urls.collect()
    };
    let error = storage.retire(&urls(&last)).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TooManyTargets, "{error}");
    assert!(bed.open().get(name, None).unwrap() == bytes);
    assert!(storage.retire(&urls(&first)).unwrap());
    assert!(bed.open().get(name, None).unwrap() == bytes);
}

/// On both sides of a network that is cut somebody might replace the other side, and what is stored
/// on one side then is lost to the other.
#[test]
fn half_of_a_set_does_not_replace_the_other_half_unless_that_is_lost() {
    let mut bed = Bed::unformed(6, "target-");
    let new = bed.places.split_off(4);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    bed.places.truncate(2);
    let error = bed.open().replace("target-2", &new[0]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Minority, "{error}");
    bed.open().replace_lost("target-2", &new[0]).unwrap();
    bed.places.push(new[0].clone());
    bed.open().replace("target-3", &new[1]).unwrap();
}

/// Its parts are from before, and others would be taken for those that were written since.
#[test]
fn a_target_that_was_replaced_comes_back_only_empty() {
    let mut bed = Bed::unformed(5, "target-");
    let new = bed.places.pop().unwrap();
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let config = vec![7; 500];
    bed.open().put(Name::CONFIG, &[&config]).unwrap();
    let old = bed.places[1].clone();
    bed.open().replace(&old.url, &new).unwrap();
    bed.places[1] = new;
    heal(&bed.open());
    let refused = || bed.open().add(&old).unwrap_err().to_string();
    let error = refused();
    assert!(error.contains("was a target of this set before"), "{error}");
    bed.targets[1].inner.delete(Name::TARGET).unwrap();
    let error = refused();
    assert!(error.contains("it is not empty"), "{error}");
}

#[test]
fn a_group_is_not_added_if_a_part_of_it_is_there() {
    let mut bed = Bed::unformed(6, "target-");
    let new = bed.places.split_off(4);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let group = [&bed.places[3..], &new].concat();
    let error = bed.open().add_group(&group).unwrap_err().to_string();
    assert!(error.contains("targets of the set already"), "{error}");
    let fresh = bed.targets[4].inner.stat(Name::TARGET);
    assert_eq!(fresh.unwrap_err().kind(), StorageErrorKind::NotFound);
}

/// A part is taken away before it is written anew. With one target away and another part damaged
/// elsewhere, a client that died in between would leave three that lack a cell.
#[test]
fn a_damaged_part_is_not_replaced_while_it_is_needed() {
    for with_secret in [false, true] {
        let bed = Bed::new(5, "target-");
        let open = || {
            let storage = bed.open();
            if with_secret {
                storage.learn_secret(&[42; 32]);
            }
            storage
        };
        let (name, bytes) = object(3, 700_000);
        open().put(name, &[&bytes]).unwrap();
        let stored = |number: usize| bed.targets[number].inner.get(name, None).unwrap();
        let sound: Vec<Vec<u8>> = (0..5).map(stored).collect();
        // Of different rows and sectors.
        for (number, at) in [(1, sound[1].len() / 4), (2, sound[2].len() - 100)] {
            let mut damaged = sound[number].clone();
            damaged[at] ^= 1;
            bed.targets[number]
                .inner
                .replace(name, &[&damaged])
                .unwrap();
        }
        bed.fail(&[4], Some(StorageErrorKind::Unreachable));
        let scrub = || {
            let problems = Problems::default();
            let options = HealOptions::default().read_data(true);
            let report = open().heal(options, &problems).unwrap();
            (report, problems.0.into_inner().unwrap().join("\n"))
        };
        let (report, problems) = scrub();
        assert_eq!((report.damaged_parts, report.unhealed_objects), (2, 1));
        assert!(
            problems.contains("is needed until missing targets are back"),
            "{problems}"
        );
        assert!(stored(1) != sound[1] && stored(2) != sound[2]);
        assert!(open().get(name, None).unwrap() == bytes);
        bed.fail(&[4], None);
        let (report, problems) = scrub();
        assert_eq!((report.healed_objects, problems.as_str()), (1, ""));
        assert!((0..5).all(|number| stored(number) == sound[number]));
    }
}

/// The name of the config says nothing of its bytes.
#[test]
fn of_copies_of_the_config_that_differ_none_is_chosen_without_a_majority() {
    let bed = Bed::new(4, "target-");
    let other = Bed::new(4, "target-");
    bed.open().put(Name::CONFIG, &[&[7; 500]]).unwrap();
    other.open().put(Name::CONFIG, &[&[8; 500]]).unwrap();
    let stored = |bed: &Bed, number: usize| {
        let target = &bed.targets[number].inner;
        target.get(Name::CONFIG, None).unwrap()
    };
    for number in 0..2 {
        let copy = stored(&other, number);
        let target = &bed.targets[number].inner;
        target.replace(Name::CONFIG, &[&copy]).unwrap();
    }
    let before: Vec<Vec<u8>> = (0..4).map(|number| stored(&bed, number)).collect();
    let problems = Problems::default();
    let options = HealOptions::default().read_data(true);
    let report = bed.open().heal(options, &problems).unwrap();
    let problems = problems.0.into_inner().unwrap().join("\n");
    assert_eq!(report.unhealed_objects, 1, "{problems}");
    assert!(
        problems.contains("as many say one thing as another"),
        "{problems}"
    );
    assert!((0..4).all(|number| stored(&bed, number) == before[number]));
}

/// It would lose what it has of that set.
#[test]
fn a_target_of_another_set_is_not_added() {
    let bed = Bed::new(3, "target-");
    let other = Bed::new(3, "other-");
    let (name, bytes) = object(1, 200_000);
    other.open().put(name, &[&bytes]).unwrap();
    let error = bed.open().add(&other.places[0]).unwrap_err().to_string();
    assert!(
        error.contains("is a target of another striped repository"),
        "{error}"
    );
    assert!(other.open().get(name, None).unwrap() == bytes);
    assert!(other.open().survey().unwrap().is_whole());
}

/// Two that make a repository at once: one of them is told that there is one.
#[test]
fn the_config_is_put_once() {
    let bed = Bed::new(3, "target-");
    bed.open().put(Name::CONFIG, &[&[7; 500]]).unwrap();
    let error = bed.open().put(Name::CONFIG, &[&[8; 500]]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::AlreadyExists);
    assert!(bed.open().get(Name::CONFIG, None).unwrap() == [7; 500]);
}

#[test]
fn ranges_end_within_an_object() {
    let bed = Bed::new(4, "target-");
    for (name, bytes) in [object(1, 1000), object(2, 200_000)] {
        let storage = bed.open();
        storage.put(name, &[&bytes]).unwrap();
        let len = bytes.len() as u64;
        for range in [len - 1..len + 1, len..len + 1, len + 70_000..len + 70_001] {
            let error = storage.get(name, Some(range.clone())).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::PastEnd, "{range:?}");
        }
        for at in [0, 1, len] {
            assert!(storage.get(name, Some(at..at)).unwrap().is_empty());
        }
        assert!(storage.get(name, Some(len - 1..len)).unwrap() == bytes[bytes.len() - 1..]);
    }
    let error = bed.open().get(object(3, 200_000).0, Some(0..0));
    assert_eq!(error.unwrap_err().kind(), StorageErrorKind::NotFound);
}

/// Its ID is all that is known then, and no two objects share one.
#[test]
fn a_damaged_mark_still_keeps_an_object_from_coming_back() {
    let bed = Bed::new(5, "node://");
    let small = put_small(&bed.open(), 0..2);
    let (name, _) = small[0];
    let away = holders(&bed, name)[0];
    let part = bed.targets[away].inner.get(name, None).unwrap();
    bed.fail(&[away], Some(StorageErrorKind::Unreachable));
    bed.open().delete(name).unwrap();
    bed.fail(&[away], None);
    assert!(bed.targets[away].inner.get(name, None).unwrap() == part);
    let mut damaged = 0;
    for target in &bed.targets {
        for listed in target.inner.list(ObjectKind::Deleted).unwrap() {
            let mark = Name::new(ObjectKind::Deleted, listed.id);
            target.inner.replace(mark, &[b"sna"]).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 3);
    assert_eq!(heal(&bed.open()).applied_deletions, 1);
    assert!(holders(&bed, name).is_empty());
    assert!(!holders(&bed, small[1].0).is_empty());
}

/// What is put into the new group would have right tags, and the old parts would be deleted.
#[test]
fn an_object_with_forged_bytes_is_not_moved() {
    let mut bed = Bed::unformed(6, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let (name, bytes) = object(1, 200_000);
    // Without tags, so that nothing but the name says what is right.
    bed.open().put(name, &[&bytes]).unwrap();
    for target in &bed.targets[..3] {
        let mut stored = target.inner.get(name, None).unwrap();
        let Header { shape, role } = Header::parse(name.id, &stored).unwrap();
        let at = shape.geometry.stored(shape.form(), 0, &(0..1));
        let (start, end) = (at.start as usize, at.end as usize);
        stored[start + 3] ^= 0x40;
        let sum = checksum(name.id, role, 0, 0, &[&stored[start..end - 16]]);
        stored[end - 16..end].copy_from_slice(&sum);
        target.inner.replace(name, &[&stored]).unwrap();
    }
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    let urls: Vec<&str> = bed.places[..3].iter().map(|place| &*place.url).collect();
    bed.open().retire(&urls).unwrap();
    let storage = bed.open();
    storage.learn_secret(&[42; 32]);
    let problems = Problems::default();
    let options = RebalanceOptions::default();
    let report = storage.rebalance(options, &problems).unwrap();
    assert_eq!((report.moved_objects, report.unmoved_objects), (0, 1));
    let problems = problems.0.into_inner().unwrap().join("\n");
    assert!(
        problems.contains("its bytes are not what its name says"),
        "{problems}"
    );
    assert_eq!(parts_bytes(&bed, 3..6), 0);
    assert_eq!(holders(&bed, name), [0, 1, 2]);
}
