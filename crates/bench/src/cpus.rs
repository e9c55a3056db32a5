//! The processors that this process may use, and threads pinned to them.

use std::fs;
use std::sync::Barrier;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors in the order in which threads are to be put on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus {
    /// One of each core.
    pub cores: Vec<usize>,
    /// The others: hardware threads that share a core with one of `cores`.
    pub siblings: Vec<usize>,
}

impl Cpus {
    /// Those that this process may run on.
    pub fn allowed() -> Result<Cpus> {
        let allowed = sched_getaffinity(None).context("cannot ask for the processors to run on")?;
        let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        Ok(Cpus::by_core(allowed, |cpu| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            fs::read_to_string(file).unwrap_or_default()
        }))
    }

    /// Two processors share a core where the texts of `siblings` are equal; empty ones share
    /// nothing.
    fn by_core(cpus: impl Iterator<Item = usize>, siblings: impl Fn(usize) -> String) -> Cpus {
        let mut seen = Vec::new();
        let (cores, siblings) = cpus.partition(|&cpu| {
            let core = siblings(cpu);
            let new = core.is_empty() || !seen.contains(&core);
            seen.push(core);
            new
        });
        Cpus { cores, siblings }
    }

    /// All of them, one of each core first.
    pub fn all(&self) -> Vec<usize> {
        [&self.cores[..], &self.siblings[..]].concat()
    }
}

/// Pins this thread, and the processes that it starts, to one processor.
pub fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on processor {cpu}"))
}

/// Runs `work` on a thread for each of `cpus`, pinned there; all begin at the same time. Gives it
/// the number of the thread.
pub fn on_each<T: Send>(
    cpus: &[usize],
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let ready = Barrier::new(cpus.len());
    std::thread::scope(|scope| {
        let start = |(number, &cpu)| {
            let (ready, work) = (&ready, &work);
            scope.spawn(move || {
                let pinned = pin(cpu);
                ready.wait();
                pinned?;
                work(number)
            })
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("the work does not panic"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_come_last() {
        let cpus = Cpus::by_core(0..4, |cpu| format!("{},{}", cpu % 2, cpu % 2 + 2));
        assert_eq!(cpus.cores, [0, 1]);
        assert_eq!(cpus.all(), [0, 1, 2, 3]);
        let unknown = Cpus::by_core(0..2, |_| String::new());
        assert_eq!(unknown.cores, [0, 1]);
    }

    #[test]
    fn threads_are_pinned() {
        let cpus = Cpus::allowed().unwrap().all();
        let ran_on = on_each(&cpus, |number| {
            let set = sched_getaffinity(None)?;
            assert_eq!(set.count(), 1);
            Ok((number, set.is_set(cpus[number])))
        })
        .unwrap();
        assert!(ran_on.iter().enumerate().all(|(i, &ran)| ran == (i, true)));
    }
}
