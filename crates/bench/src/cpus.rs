//! The processors that this process may use, which they are, and threads pinned to them.

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

    /// All processors, one of each core first.
    pub fn all(&self) -> Vec<usize> {
        [&self.cores[..], &self.siblings[..]].concat()
    }
}

/// Which processor this is.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What it calls itself, or else the architecture.
    pub name: String,
    vendor: String,
    family: String,
    model: String,
    /// The widest vectors that it has here: a hypervisor may hide some.
    vectors: &'static str,
}

impl Model {
    /// That of this machine.
    pub fn of_this() -> Model {
        Model::from_cpuinfo(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn from_cpuinfo(text: &str) -> Model {
        let field = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
            Some(value.trim().to_owned())
        };
        let flags = field("flags").unwrap_or_default();
        let has = |flag: &&str| flags.split(' ').any(|word| word == *flag);
        let unknown = || std::env::consts::ARCH.to_owned();
        Model {
            name: field("model name").unwrap_or_else(unknown),
            vendor: field("vendor_id")
                .or_else(|| field("CPU implementer"))
                .unwrap_or_else(unknown),
            family: field("cpu family")
                .or_else(|| field("CPU architecture"))
                .unwrap_or_default(),
            model: field("model")
                .or_else(|| field("CPU part"))
                .unwrap_or_default(),
            vectors: ["avx512bw", "avx2"]
                .into_iter()
                .find(has)
                .unwrap_or("no avx2"),
        }
    }

    /// Vendor and family, as `AuthenticAMD 26, avx512bw`.
    pub fn family(&self) -> String {
        format!("{} {}, {}", self.vendor, self.family, self.vectors)
    }

    /// Vendor, family and model, as `AuthenticAMD 26 2, avx512bw`.
    pub fn full(&self) -> String {
        let (vendor, family, model) = (&self.vendor, &self.family, &self.model);
        format!("{vendor} {family} {model}, {}", self.vectors)
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
    fn a_processor_has_a_name_a_family_and_a_model() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n\
                    model name\t: AMD EPYC\nflags\t\t: sse avx2 avx512bw\n\
                    processor\t: 1\nvendor_id\t: Other\n";
        let model = Model::from_cpuinfo(text);
        assert_eq!(model.name, "AMD EPYC");
        assert_eq!(model.family(), "AuthenticAMD 26, avx512bw");
        assert_eq!(model.full(), "AuthenticAMD 26 2, avx512bw");
        let hidden = Model::from_cpuinfo(&text.replace("avx512bw", "avx"));
        assert_eq!(hidden.full(), "AuthenticAMD 26 2, avx2");
        assert!(!Model::of_this().name.is_empty());
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
