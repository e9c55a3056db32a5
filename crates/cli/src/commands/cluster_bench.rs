//! `tabane cluster bench`

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tabane_storage::{Name, ObjectKind, Storage, StorageError, StorageErrorKind};
use tabane_store::Id;
use tabane_striped::StripedStorage;
use tabane_striped::cluster::Plan;
use tabane_striped::cluster::wire::random_id;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table, print_json};

/// Bytes of an object: about those of a pack.
const OBJECT_LEN: usize = 8 << 20;

/// Objects that are written or read at a time: while nodes make one durable, the next are on their
/// way.
const AT_ONCE: usize = 3;

/// The measurements of a plan.
struct Measured {
    plan: String,
    objects: usize,
    /// Time of all writes.
    write: Duration,
    /// Time of the slowest write.
    slowest: Duration,
    /// Time of reading all objects back.
    read: Duration,
}

/// Writes objects by each plan for `seconds` seconds, reads them back, and deletes them.
pub fn run(global: &Global, plans: &[String], seconds: f64) -> Result<Exit> {
    let mut table = Table::new(&["Plan", "Objects>", "Written>", "Slowest>", "Read>"]);
    for name in plans {
        let plan: Plan = name.parse().map_err(Failure::Usage)?;
        let mut global = global.clone();
        global.repository.network.plan = plan;
        let storage = global.set()?;
        // Tags cost the same under any secret.
        storage.learn_secret(&random_id());
        // Whoever may not delete would leave all that it writes.
        match storage.delete(Name::new(ObjectKind::Pack, Id(random_id()))) {
            Err(error) if error.kind() == StorageErrorKind::Unauthorized => {
                return Err(error.into());
            }
            _ => {}
        }
        let measured = measure(&storage, name, seconds);
        let measured = measured?;
        let bytes = (measured.objects * OBJECT_LEN) as u64;
        if global.json {
            let rate = |time| format::megabytes_per_second(bytes, time);
            print_json(&json!({
                "message_type": "cluster_bench",
                "plan": measured.plan,
                "objects": measured.objects,
                "object_bytes": OBJECT_LEN,
                "write_mb_per_s": rate(measured.write),
                "slowest_write_s": measured.slowest.as_secs_f64(),
                "read_mb_per_s": rate(measured.read),
            }))?;
        }
        table.row(vec![
            measured.plan,
            format::grouped(measured.objects as u64),
            format::speed(bytes, measured.write),
            format::duration(measured.slowest),
            format::speed(bytes, measured.read),
        ]);
    }
    if !global.json {
        let mut output = Output::new();
        table.print(&mut output)?;
        output.finish()?;
    }
    Ok(Exit::Success)
}

fn measure(storage: &StripedStorage, plan: &str, seconds: f64) -> tabane_storage::Result<Measured> {
    let object = vec![7; OBJECT_LEN];
    let (names, slowest) = (Mutex::new(Vec::new()), Mutex::new(Duration::ZERO));
    let begun = Instant::now();
    let written = at_once(|| {
        while begun.elapsed().as_secs_f64() < seconds {
            let name = Name::new(ObjectKind::Pack, Id(random_id()));
            // Recorded before the put, so that the object is deleted whatever happens.
            names.lock().expect("no panic under this lock").push(name);
            let put = Instant::now();
            storage.put(name, &[&object])?;
            let mut slowest = slowest.lock().expect("no panic under this lock");
            *slowest = put.elapsed().max(*slowest);
        }
        Ok(())
    });
    let write = begun.elapsed();
    let names = names.into_inner().expect("no panic under this lock");
    let left = Mutex::new(names.iter());
    let begun = Instant::now();
    let read = written.and_then(|()| {
        at_once(|| {
            while let Some(&name) = next(&left) {
                if storage.get(name, None)? != object {
                    let text = format!("{name} differs from the bytes written");
                    return Err(StorageError::new(StorageErrorKind::Damaged, text));
                }
            }
            Ok(())
        })
    });
    let read_took = begun.elapsed();
    let left = Mutex::new(names.iter());
    let deleted = at_once(|| {
        while let Some(&name) = next(&left) {
            match storage.delete(name) {
                Err(error) if error.kind() != StorageErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    });
    read.and(deleted)?;
    Ok(Measured {
        plan: plan.to_owned(),
        objects: names.len(),
        write,
        slowest: slowest.into_inner().expect("no panic under this lock"),
        read: read_took,
    })
}

fn next<'a>(names: &Mutex<std::slice::Iter<'a, Name>>) -> Option<&'a Name> {
    names.lock().expect("no panic under this lock").next()
}

/// Does the same in several threads; the first error counts.
fn at_once(act: impl Fn() -> tabane_storage::Result<()> + Sync) -> tabane_storage::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(&act)).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        let results: Vec<_> = results
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        results.into_iter().collect()
    })
}
