//! Where blocks are: in several packs, in packs that go away.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use crate::common::memory::MemoryStorage;
use crate::common::tree::random_bytes;
use crate::common::{init, restore_observed, restore_options};
use tabane_index::Index;
use tabane_storage::{Name, ObjectKind};
use tabane_store::Id;
use tabane_store::parts::pack::{Codec, PackContents, PackKind, Segment};
use tabane_store::parts::reader::BlockReader;

fn pack(blocks: &[u8]) -> PackContents {
    PackContents {
        salt: [0; 32],
        kind: PackKind::Data,
        segments: vec![Segment {
            stored_len: 100,
            codec: Codec::Stored,
            blocks: blocks.iter().map(|&byte| (Id([byte; 32]), 1)).collect(),
        }],
    }
}

#[test]
fn blocks_of_excluded_packs_are_found_elsewhere_or_not_at_all() {
    let mut index = Index::default();
    let packs = [Id([100; 32]), Id([101; 32]), Id([102; 32])];
    for (id, blocks) in packs.iter().zip([&[1, 2, 3], &[2, 3, 4], &[3, 4, 5]]) {
        index.add(*id, &pack(blocks)).unwrap();
    }
    let packs_of = |index: &Index, block: u8| -> Vec<Id> {
        let places = index.places(&Id([block; 32])).unwrap();
        assert_eq!(
            index.find(&Id([block; 32])).unwrap(),
            places.first().copied()
        );
        let pack_of = |segment| index.pack(index.segment(segment).unwrap().pack).unwrap().id;
        places.iter().map(|place| pack_of(place.segment)).collect()
    };
    assert_eq!(packs_of(&index, 3), packs);
    let excluded: HashSet<Id> = [packs[0], Id([99; 32])].into();
    index
        .exclude_packs(|pack| excluded.contains(&pack.id))
        .unwrap();
    assert_eq!(packs_of(&index, 1), []);
    assert_eq!(packs_of(&index, 2), [packs[1]]);
    assert_eq!(packs_of(&index, 3), [packs[1], packs[2]]);
    assert_eq!(index.len(), 4);
    index
        .exclude_packs(|pack| packs.contains(&pack.id))
        .unwrap();
    assert!(index.is_empty());
    assert!((1..=5).all(|block| packs_of(&index, block).is_empty()));
}

#[test]
fn a_block_is_read_from_wherever_it_can_be() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let source = crate::common::scratch();
    fs::write(source.path().join("file"), random_bytes(1, 300_000)).unwrap();
    let all = |kind| {
        repository
            .list(kind)
            .unwrap()
            .into_iter()
            .map(move |(id, _)| Name::new(kind, id))
    };

    // Stored twice, since the second backup does not see the index of the first. As another path:
    // directories above the source change meanwhile.
    let options = crate::common::backup_options().as_path(PathBuf::from("/source"));
    let made = crate::common::back_up_with(&repository, &[source.path()], options.clone());
    let first_index: Vec<Name> = all(ObjectKind::Index).collect();
    let objects = storage.objects();
    first_index.iter().for_each(|name| storage.remove(*name));
    let first_packs: Vec<Name> = all(ObjectKind::Pack).collect();
    let options = options.parent(tabane_store::backup::Parent::None);
    crate::common::back_up_with(&repository, &[source.path()], options);
    first_index
        .iter()
        .for_each(|name| storage.set(*name, objects[name].clone()));

    let index = repository.load_index().unwrap();
    let blocks: Vec<Id> = index.blocks().map(|block| block.unwrap().0).collect();
    assert!(blocks.len() >= 3);
    for pack in first_packs {
        let bytes = storage.objects()[&pack].clone();
        for damage in [
            None,
            Some(bytes[..bytes.len() / 2].to_vec()),
            Some(vec![0; bytes.len()]),
        ] {
            match damage {
                None => storage.remove(pack),
                Some(damaged) => storage.set(pack, damaged),
            }
            let mut reader = BlockReader::new(&repository);
            for &block in &blocks {
                let mut out = Vec::new();
                reader.append_block(&index, block, &mut out).unwrap();
            }
        }
        // Damage that the list of packs does not tell.
        let target = crate::common::scratch();
        let options = restore_options(target.path());
        let (summary, warnings) = restore_observed(&repository, made.id.unwrap(), options);
        assert_eq!((summary.errors, warnings), (0, vec![]));
        storage.set(pack, bytes);
    }
}
