//! Compares packs of write-only keys with what these say of them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::access::examine::Examiner;
use crate::access::reader;
use crate::access::repository::Repository;
use tabane_format::pack::{self, PackContents};
use tabane_format::{Error, Result};
use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind};

/// The outcome.
#[derive(Default)]
pub struct Verified {
    /// Packs that hold what was said.
    pub packs: Vec<(Id, PackContents)>,
    /// Number of packs that hold something else.
    pub refuted: u64,
}

/// Reads these packs whole and compares every block with its digest, and what they say with what
/// was said of them. Those that hold something else are reported; those that are gone are passed
/// over.
///
/// # Errors
/// When the storage fails.
pub fn packs<'a>(
    repository: &Repository,
    claims: impl Iterator<Item = (&'a Id, &'a Vec<PackContents>)>,
) -> Result<Verified> {
    let claims: Vec<(Id, Vec<PackContents>)> =
        claims.map(|(id, said)| (*id, said.clone())).collect();
    // All that is said of a pack has its length.
    let len_of = |said: &[PackContents]| said[0].object_len();
    let total: u64 = claims.iter().map(|(_, said)| len_of(said)).sum();
    let done = Arc::new(AtomicU64::new(0));
    let outcome = Arc::new(Mutex::new((Verified::default(), None)));
    let pool = reader::pool(repository, Examiner::default);
    for (id, said) in claims {
        let (repository, done, outcome) =
            (repository.clone(), Arc::clone(&done), Arc::clone(&outcome));
        pool.submitter().submit(move |examiner, _| {
            if lock(&outcome).1.is_some() {
                return;
            }
            let verified = verify(&repository, id, &said, examiner);
            let len = len_of(&said);
            let mut state = lock(&outcome);
            match verified {
                Ok(Found::True(contents)) => state.0.packs.push((id, contents)),
                Ok(Found::Lie) => state.0.refuted += 1,
                Ok(Found::Gone) => {}
                Err(error) => {
                    state.1.get_or_insert(error);
                }
            }
            drop(state);
            let done = done.fetch_add(len, Ordering::Relaxed) + len;
            repository.progress().bytes(done, total);
        });
    }
    pool.finish();
    let (mut verified, error) = std::mem::take(&mut *lock(&outcome));
    verified.packs.sort_by_key(|(id, _)| *id);
    error.map_or(Ok(verified), Err)
}

/// What a look at a pack has shown.
enum Found {
    /// It holds this, which was said of it.
    True(PackContents),
    /// It holds something else than what was said.
    Lie,
    Gone,
}

fn verify(
    repository: &Repository,
    id: Id,
    said: &[PackContents],
    examiner: &mut Examiner,
) -> Result<Found> {
    let name = Name::new(ObjectKind::Pack, id);
    let what = name.to_string();
    let bytes = match repository.get_object(ObjectKind::Pack, id) {
        Err(error) if error.is_not_found() => return Ok(Found::Gone),
        Err(error @ Error::Damaged { .. }) => Err(error),
        bytes => Ok(bytes?),
    };
    let mut wrong = None;
    let read = bytes.and_then(|bytes| {
        let contents = pack::read_contents(repository.keys(), &bytes, &what)?;
        examiner.examine(repository, &bytes, &contents, &what, |error, _| {
            wrong.get_or_insert(error);
        })?;
        Ok(contents)
    });
    // Whoever has such a key can put anything there: no error of what it holds is one of ours.
    let error = match (read, wrong) {
        (Ok(contents), None) if said.contains(&contents) => return Ok(Found::True(contents)),
        (Ok(_), None) => Error::damaged(&what, "its footer is not what the key says"),
        (Err(error), _) | (Ok(_), Some(error)) => error,
    };
    let why = format!("a write-only key says what this pack holds, and it is not true: {error}");
    repository.progress().warning(Path::new(&name.path()), &why);
    Ok(Found::Lie)
}
