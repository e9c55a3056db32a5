//! `tabane-bench served`: one tree into a repository in a directory, and into the same directory
//! behind servers on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tabane_bench::arguments::{Program, Report};
use tabane_bench::measure::{Sample, measure};
use tabane_bench::rounds::{self, median_of, ratio, round, wall_s};
use tabane_bench::tools::{Kind, Places, Scenario, Tool, find_in_path};
use tabane_testing::disk;
use tabane_testing::gateway::{free_port, wait_for};
use tabane_testing::sshd::Sshd;

/// Through a server, at least this part of the directory's speed.
const BAR_SERVED: f64 = 0.9;

/// Time backup, restore and check through the storage server (HTTPS, SSH) and SFTP beside the same
/// repository in a directory, and beside restic through the same SSH server.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// The restic that is measured beside SFTP [default: the one in PATH, if there is one]
    #[arg(long, value_name = "PATH")]
    restic: Option<PathBuf>,
    /// How many times to run everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where repositories and restored trees go [default: $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// Where a repository is, and who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Directory,
    Https,
    Ssh,
    Sftp,
    ResticSftp,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::Sftp => "sftp",
            Self::ResticSftp => "restic sftp",
        }
    }
}

const SCENARIOS: [Scenario; 3] = [Scenario::First, Scenario::Restore, Scenario::Check];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    rounds::load();
    let tabane = Tool::at(Kind::Tabane, args.program.find()?)?;
    let restic = args.restic.clone().or_else(|| find_in_path("restic"));
    let restic = restic
        .map(|program| Tool::at(Kind::Restic, program))
        .transpose()?;
    let sshd = Sshd::start("SSH and SFTP").context("there is no SSH server to measure with")?;
    let parent = args.work.clone().unwrap_or_else(std::env::temp_dir);
    let work = disk::work_in(&parent)?;
    let bench = Bench {
        tree: args.tree.canonicalize().context("there is no such tree")?,
        work: work.path().canonicalize()?,
        tabane,
        restic,
        sshd,
    };
    let server = bench.serve()?;
    let mut ways = vec![Way::Directory, Way::Https, Way::Ssh, Way::Sftp];
    ways.extend(bench.restic.as_ref().map(|_| Way::ResticSftp));
    let named: Vec<_> = ways.iter().map(|way| (*way, way.name())).collect();
    let samples = rounds::take_turns(
        args.runs,
        &named,
        &SCENARIOS,
        |way| bench.init(way, &server),
        |way, scenario| bench.measure(way, &server, scenario),
    )?;
    let version = bench.restic.as_ref().map(|restic| restic.version.as_str());
    let met = report(args, &ways, &samples, version);
    Ok(args.report.exit_code(met))
}

/// Prints medians and ratios; returns whether all bars are met.
fn report(args: &Args, ways: &[Way], samples: &[Vec<Sample>], restic: Option<&str>) -> bool {
    let of = |way: Way, number: usize| {
        let way = ways.iter().position(|found| *found == way)?;
        Some(&samples[way * SCENARIOS.len() + number])
    };
    let mut met = true;
    if !args.report.json {
        let restic = restic.unwrap_or("none");
        println!(
            "medians of {} runs; restic {restic}; bars: {BAR_SERVED} and 1",
            args.runs
        );
        println!(
            "{:<9} {:<12} {:>8} {:>8} {:>12} {:>18} {:>14}",
            "scenario",
            "way",
            "wall s",
            "CPU s",
            "others CPU s",
            "directory / way",
            "restic / sftp"
        );
    }
    for (number, scenario) in SCENARIOS.into_iter().enumerate() {
        for &way in ways {
            let Some(taken) = of(way, number) else {
                continue;
            };
            let beside = match way {
                Way::Directory | Way::ResticSftp => None,
                _ => of(Way::Directory, number).map(|directory| ratio(directory, taken, wall_s)),
            };
            let restic = match way {
                Way::Sftp => of(Way::ResticSftp, number).map(|restic| ratio(restic, taken, wall_s)),
                _ => None,
            };
            met &= match way {
                Way::Https | Way::Ssh => beside.is_none_or(|ratio| ratio >= BAR_SERVED),
                Way::Sftp => restic.is_none_or(|ratio| ratio >= 1.0),
                Way::Directory | Way::ResticSftp => true,
            };
            let wall = median_of(taken, wall_s);
            let cpu = median_of(taken, rounds::cpu_s);
            // The server, and both ends of SSH: they share the processors with the client.
            let others = median_of(taken, |sample| sample.others_cpu.as_secs_f64());
            if args.report.json {
                println!(
                    "{}",
                    json!({
                        "kind": "served", "scenario": scenario.name(), "way": way.name(),
                        "wall_s": round(wall), "cpu_s": round(cpu),
                        "others_cpu_s": round(others),
                        "directory_by_way": beside.map(round), "restic_by_sftp": restic.map(round),
                    })
                );
                continue;
            }
            let text = |ratio: Option<f64>| ratio.map_or(String::new(), |it| format!("{it:.2}"));
            println!(
                "{:<9} {:<12} {wall:>8.2} {cpu:>8.2} {others:>12.2} {:>18} {:>14}",
                scenario.name(),
                way.name(),
                text(beside),
                text(restic)
            );
        }
    }
    met
}

struct Bench {
    tree: PathBuf,
    work: PathBuf,
    tabane: Tool,
    restic: Option<Tool>,
    sshd: Sshd,
}

/// The server over HTTPS; killed when dropped.
struct Server {
    process: Child,
    port: u16,
    token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Bench {
    /// The folder in which a way's repository is.
    fn folder(&self, way: Way) -> PathBuf {
        self.work
            .join("repositories")
            .join(way.name().replace(' ', "-"))
    }

    fn settings(&self) -> PathBuf {
        self.work.join("settings")
    }

    /// Starts the server over HTTPS, and lets SSH start the other one.
    fn serve(&self) -> Result<Server> {
        let repositories = self.work.join("repositories");
        fs::create_dir_all(&repositories)?;
        let tabane = || Command::new(&self.tabane.program);
        let mut setup = tabane();
        setup
            .args(["serve", "setup", "-q"])
            .arg(self.settings())
            .args(["--host", "127.0.0.1"]);
        ensure!(setup.status()?.success(), "`tabane serve setup` failed");
        let mut add = tabane();
        add.args(["serve", "add", "-q"])
            .arg(self.settings())
            .args(["https", "--role", "admin"]);
        let added = add.output()?;
        ensure!(added.status.success(), "`tabane serve add` failed");
        let port = free_port();
        let mut serve = tabane();
        serve
            .args(["serve", "--settings"])
            .arg(self.settings())
            .arg("--dir")
            .arg(&repositories);
        serve.args([
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--scrub-every",
            "0s",
        ]);
        let process = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        wait_for(port);
        Ok(Server {
            process,
            port,
            token: String::from_utf8(added.stdout)?.trim().to_owned(),
        })
    }

    /// The repository as its program calls it.
    fn places(&self, way: Way, server: &Server) -> Places {
        let folder = self.folder(way);
        let repository = match way {
            Way::Directory => folder.display().to_string(),
            Way::Https => format!("tabane+https://127.0.0.1:{}/https", server.port),
            Way::Ssh => self.sshd.url("ssh", &folder),
            Way::Sftp => self.sshd.url("sftp", &folder),
            // An absolute path has two slashes there.
            Way::ResticSftp => {
                let url = self.sshd.url("sftp", &folder);
                let path = folder.display().to_string();
                url.replace(&path, &format!("/{path}"))
            }
        };
        let own = |what: &str| {
            self.work
                .join(format!("{}-{what}", way.name().replace(' ', "-")))
        };
        Places {
            tree: self.tree.clone(),
            repository: repository.into(),
            cache: own("cache"),
            target: own("target"),
        }
    }

    fn tool(&self, way: Way) -> &Tool {
        match (way, &self.restic) {
            (Way::ResticSftp, Some(restic)) => restic,
            _ => &self.tabane,
        }
    }

    /// What both programs need to reach the servers.
    fn prepare(&self, way: Way, server: &Server, mut command: Command) -> Command {
        // The key of the test may do one thing at a time.
        let program = self.tabane.program.display();
        self.sshd.authorize(&match way {
            Way::Ssh => format!("command=\"{program} serve --stdio\""),
            _ => String::new(),
        });
        command
            .env("PATH", self.sshd.search_path())
            .env("TABANE_CACERT", self.settings().join("authority.pem"))
            .env("TABANE_SERVER_TOKEN", &server.token);
        command
    }

    fn init(&self, way: Way, server: &Server) -> Result<()> {
        let places = self.places(way, server);
        for path in [&self.folder(way), &places.cache, &places.target] {
            disk::remove_tree(path)?;
        }
        fs::create_dir(&places.cache)?;
        for command in self.tool(way).init(&places)? {
            measure(self.prepare(way, server, command), &self.log(), &[0])?;
        }
        Ok(())
    }

    fn measure(&self, way: Way, server: &Server, scenario: Scenario) -> Result<Sample> {
        let places = self.places(way, server);
        if scenario == Scenario::Restore {
            fs::create_dir(&places.target)?;
        }
        // So that no way pays for the writes of another.
        let directory = fs::File::open(&self.work)?;
        rustix::fs::syncfs(&directory)?;
        match scenario {
            Scenario::First => disk::warm(&self.tree)?,
            _ => disk::warm(&self.folder(way))?,
        }
        let tool = self.tool(way);
        let command = tool.scenario(scenario, Scenario::First, &places);
        let sample = measure(self.prepare(way, server, command), &self.log(), &[0])
            .with_context(|| format!("{}, {}", way.name(), scenario.name()))?;
        if scenario == Scenario::Restore {
            self.check(&tool.restored(&places))?;
            disk::remove_tree(&places.target)?;
        }
        Ok(sample)
    }

    /// Fails if what was restored has not as many files and bytes as the tree.
    fn check(&self, restored: &Path) -> Result<()> {
        let (found, source) = (disk::census(restored)?, disk::census(&self.tree)?);
        if (found.files, found.bytes) != (source.files, source.bytes) {
            bail!("{} files of {} came back", found.files, source.files);
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.work.join("log")
    }
}
