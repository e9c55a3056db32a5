//! Objects of which more is lost than any code can bring back: what is affected is named, what is
//! left is saved, and the repository is whole again afterwards.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tabane_parity::Layout;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::backup::Parent;
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::prune::PruneOptions;
use tabane_store::repair::{PacksReport, RepairOptions};
use tabane_store::{Error, Id, Repository};

use crate::bed::{Bed, Random};
use crate::common::{Recorder, assert_clean, back_up_with, backup_options, id};

/// Of shards with tags.
const HEADER_LEN: usize = 112;

/// The parts of packs on a target: those of stripes, or the whole copies.
fn packs(bed: &Bed, number: usize, striped: bool) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    let files = bed.files(number).into_iter();
    let packs = files.filter(|path| path.components().any(|part| part.as_os_str() == "packs"));
    packs
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .filter(move |(_, bytes)| (bytes[16] > 0) == striped)
}

/// What a check of all data finds.
fn problems(repository: &Arc<Repository>) -> Vec<String> {
    let recorder = Arc::new(Recorder::default());
    repository
        .with_progress(Arc::clone(&recorder))
        .check(CheckOptions::default().read_data(ReadData::All))
        .unwrap();
    let warnings = recorder.warnings().into_iter();
    warnings.map(|(_, what)| what).collect()
}

fn repaired(repository: &Arc<Repository>) -> PacksReport {
    let packs = repository.list(ObjectKind::Pack).unwrap();
    let packs: Vec<_> = packs.into_iter().map(|(id, _)| id).collect();
    let keep = |_, _: &[u8]| Ok(());
    let planned = repository
        .repair_packs(RepairOptions::default().dry_run(true), &packs, keep)
        .unwrap();
    let report = repository
        .repair_packs(RepairOptions::default(), &packs, keep)
        .unwrap();
    assert_eq!(report, planned);
    report
}

/// What is lost and still at its source is stored again, and nothing is left to mend.
fn store_again(bed: &Bed, first: Id) {
    let options = backup_options().parent(Parent::None);
    let made = back_up_with(&bed.repository(), &[&bed.source()], options);
    bed.assert_restores(id(&made));
    // It may miss a directory above the source, which others have changed meanwhile.
    let first = Name::new(ObjectKind::Snapshot, first);
    bed.open().delete(first).unwrap();
    assert_clean(&bed.repository());
    bed.assert_whole();
}

#[test]
fn segments_that_can_be_read_are_saved() {
    let bed = Bed::new(3);
    fs::write(bed.source().join("wide"), Random(17).bytes(3_000_000)).unwrap();
    let first = bed.fill();
    let layout = Layout::new(3).unwrap();
    // The only cell that stays: the second half of the pack.
    let stays = layout.data_cells()[1];
    for number in 0..bed.count {
        for (path, mut bytes) in packs(&bed, number, true) {
            let role = usize::from(bytes[18]);
            let row_len = (bytes.len() - HEADER_LEN) / layout.rows();
            for (row, stored) in bytes[HEADER_LEN..].chunks_mut(row_len).enumerate() {
                if layout.cell(role, row) != stays {
                    stored.fill(0);
                }
            }
            fs::write(path, bytes).unwrap();
        }
    }
    let found = problems(&bed.repository());
    let says = |what: &str| found.iter().any(|line| line.contains(what));
    assert!(
        says("too much of it is lost") && says("/wide: block"),
        "{found:?}"
    );
    let report = repaired(&bed.repository());
    assert!(
        report.saved_blocks > 0 && report.lost_blocks > 0,
        "{report:?}"
    );
    store_again(&bed, first);
}

/// Every part of a pack is overwritten, so that even its length is lost.
#[test]
fn packs_of_which_no_part_is_sound_are_given_up() {
    for striped in [true, false] {
        let bed = Bed::new(5);
        let first = bed.fill();
        for number in 0..bed.count {
            for (path, bytes) in packs(&bed, number, striped) {
                fs::write(path, vec![0; bytes.len()]).unwrap();
            }
        }
        let found = problems(&bed.repository());
        let affected = if striped {
            "/large: block"
        } else {
            "snapshot "
        };
        assert!(
            found.iter().any(|line| line.contains(affected)),
            "{found:?}"
        );
        let report = repaired(&bed.repository());
        assert!(
            report.saved_blocks == 0 && report.lost_blocks > 0,
            "{report:?}"
        );
        store_again(&bed, first);
    }
}

/// What is cut short everywhere is no leftover of an interrupted write: were it passed over, a
/// prune would remove what it needs.
#[test]
fn a_snapshot_that_is_cut_short_everywhere_is_not_taken_for_removed() {
    for len in [0, 63, 100, 113] {
        let bed = Bed::new(5);
        let first = bed.fill();
        for number in 0..bed.count {
            let path = bed.target(number).join("snapshots").join(first.to_string());
            if let Ok(bytes) = fs::read(&path) {
                fs::write(path, &bytes[..len]).unwrap();
            }
        }
        let storage = bed.open();
        storage.remove_leftovers(Duration::ZERO).unwrap();
        let report = storage
            .heal(Default::default(), &Recorder::default())
            .unwrap();
        assert_eq!((report.unhealed_objects, report.fragments), (1, 0), "{len}");
        assert_eq!(storage.survey().unwrap().incomplete_objects, 1, "{len}");
        let found = problems(&bed.repository());
        assert!(
            matches!(&found[..], [one] if one.contains("damaged")),
            "{found:?}"
        );
        let planned = bed.repository().plan_prune(PruneOptions::default());
        assert!(matches!(planned, Err(Error::CannotPrune(_))), "{len}");
        storage
            .delete(Name::new(ObjectKind::Snapshot, first))
            .unwrap();
        bed.assert_whole();
    }
}
