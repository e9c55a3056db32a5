//! `tabane-papers gpu`: hashes and AES on a graphics card, as the paper measured them: its tables 1
//! to 3; and content-defined chunking there.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use tabane_bench::cpus::Cpus;
use tabane_bench::data::noise;
use tabane_bench::measure::median;
use tabane_bench::peers::openssl::OpenSsl;
use tabane_lanes::Backend;
use tabane_testing::progress;

mod card;
mod here;
mod plot;
mod report;

/// Time hashes, AES and chunking on a graphics card beside all cores and OpenSSL, by the length of
/// the messages.
///
/// Rates are bytes a second of wall time, medians over the rounds. Results of the card are compared
/// with those of the lanes, after its buffers were filled with something else. Without a card, the
/// columns of the processor are there, and what is missing is said.
#[derive(clap::Args)]
pub struct Args {
    /// Data, in MiB: a table's line takes all of it, or as many messages as there may be
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..=1 << 12))]
    data: u32,
    /// How many times to time everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long to time each figure in each round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Leave OpenSSL out
    #[arg(long)]
    no_peers: bool,
    /// Fail where there is no card
    #[arg(long)]
    need_card: bool,
    /// Draw which unit wins at which length as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Hash(tabane_gpu::Algorithm),
    /// Encryption under one key of 128 bits; the bytes are those of the whole call, as in the
    /// paper's table 3.
    Aes(tabane_gpu::Mode),
    /// Cutting into blocks of 128 KiB by content; the bytes are those of the whole call.
    Cuts,
}

impl Subject {
    /// The paper's, in the order of its tables, and then others.
    const ALL: [Subject; 6] = [
        Subject::Hash(tabane_gpu::Algorithm::Sha1),
        Subject::Hash(tabane_gpu::Algorithm::Md5),
        Subject::Aes(tabane_gpu::Mode::EcbEncrypt),
        Subject::Hash(tabane_gpu::Algorithm::Sha256),
        Subject::Aes(tabane_gpu::Mode::Ctr),
        Subject::Cuts,
    ];

    /// The paper's lengths in bytes, and longer ones. Those of AES and of cutting are of all data,
    /// which has to be much to pay.
    fn lens(self) -> Vec<usize> {
        if self == Subject::Cuts {
            return vec![1 << 20, 16 << 20, 256 << 20, 1 << 30];
        }
        let mut lens = vec![16, 64, 256, 1024, 8192, 64 << 10, 1 << 20];
        if matches!(self, Subject::Aes(_)) {
            lens.extend([16 << 20, 256 << 20]);
        }
        lens
    }

    /// How `openssl speed` is asked for it, if OpenSSL has it.
    fn openssl_arguments(self) -> Option<[&'static str; 2]> {
        match self {
            Subject::Hash(algorithm) => Some(["-evp", algorithm.name()]),
            Subject::Aes(tabane_gpu::Mode::Ctr) => Some(["-evp", "aes-128-ctr"]),
            Subject::Aes(_) => Some(["-evp", "aes-128-ecb"]),
            Subject::Cuts => None,
        }
    }

    /// Instructions for each byte that only the 64 integer lanes of a multiprocessor take, counted
    /// in what ptxas 12.9 makes for sm_90 of the loop over blocks, without the padding.
    fn instructions_a_byte(self) -> f64 {
        match self {
            Subject::Hash(tabane_gpu::Algorithm::Md5) => 290.0 / 64.0,
            Subject::Hash(tabane_gpu::Algorithm::Sha1) => 650.0 / 64.0,
            Subject::Hash(tabane_gpu::Algorithm::Sha256) => 1300.0 / 64.0,
            Subject::Aes(_) => 42.0,
            // Where the byte's number is, the hash, the lowest hash.
            Subject::Cuts => 4.0,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Subject::Hash(tabane_gpu::Algorithm::Md5) => "MD5",
            Subject::Hash(tabane_gpu::Algorithm::Sha1) => "SHA-1",
            Subject::Hash(tabane_gpu::Algorithm::Sha256) => "SHA-256",
            Subject::Aes(tabane_gpu::Mode::Ctr) => "AES-128-CTR",
            Subject::Aes(_) => "AES-128-ECB",
            Subject::Cuts => "Chunking",
        })
    }
}

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Data and results are on the card. AES by tables.
    CardResident,
    /// AES, bit by bit.
    CardResidentBits,
    /// Data and results are in the machine's memory.
    CardFromHost,
    LanesAllCores,
    OpenSslOneCore,
    OpenSslAllCores,
}

impl Unit {
    const ALL: [Unit; 6] = [
        Unit::CardResident,
        Unit::CardResidentBits,
        Unit::CardFromHost,
        Unit::LanesAllCores,
        Unit::OpenSslOneCore,
        Unit::OpenSslAllCores,
    ];

    fn name(self) -> &'static str {
        match self {
            Unit::CardResident => "card, resident",
            Unit::CardResidentBits => "card, by bits",
            Unit::CardFromHost => "card, from host",
            Unit::LanesAllCores => "lanes, all cores",
            Unit::OpenSslOneCore => "OpenSSL, one core",
            Unit::OpenSslAllCores => "OpenSSL, all cores",
        }
    }
}

/// What was measured of a subject at a length.
struct Line {
    subject: Subject,
    len: usize,
    /// Bytes a second by the number of the unit, where it was measured.
    rates: [Option<f64>; Unit::ALL.len()],
}

impl Line {
    fn rate(&self, unit: Unit) -> Option<f64> {
        self.rates[unit as usize]
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    Backend::forced()?;
    let card = card::Bench::open();
    if args.need_card
        && let Err(error) = &card
    {
        bail!("{error}");
    }
    let openssl = if args.no_peers { None } else { OpenSsl::find() };
    let cpus = Cpus::allowed()?.all();
    report::heading(args, card.as_ref(), openssl.as_ref(), cpus.len());
    let card = card.ok();
    let data = noise((args.data as usize) << 20);
    let seconds = f64::from(args.time) / 1000.0;
    let mut lines = Vec::new();
    for subject in Subject::ALL {
        for len in subject.lens().into_iter().filter(|&len| len <= data.len()) {
            progress::show(&format!("{subject}, {len} bytes"));
            let mut samples: [Vec<f64>; Unit::ALL.len()] = Default::default();
            for _ in 0..args.rounds {
                for unit in Unit::ALL {
                    let rate = match unit {
                        Unit::CardResident | Unit::CardResidentBits | Unit::CardFromHost => {
                            match &card {
                                Some(card) => card.rate(unit, subject, len, &data, seconds)?,
                                None => None,
                            }
                        }
                        Unit::LanesAllCores => {
                            Some(here::lanes(&cpus, subject, len, &data, seconds)?)
                        }
                        Unit::OpenSslOneCore | Unit::OpenSslAllCores => {
                            let cpus = if unit == Unit::OpenSslOneCore {
                                &cpus[..1]
                            } else {
                                &cpus[..]
                            };
                            let rate = openssl
                                .as_ref()
                                .zip(subject.openssl_arguments())
                                .map(|(openssl, what)| here::openssl(openssl, cpus, what, len));
                            rate.transpose()?
                        }
                    };
                    samples[unit as usize].extend(rate);
                }
            }
            let line = Line {
                subject,
                len,
                rates: samples.map(median),
            };
            if args.json {
                report::print_json(card.as_ref(), &line);
            }
            lines.push(line);
        }
    }
    if !args.json {
        report::print_tables(card.as_ref(), &lines);
    }
    if let Some(folder) = &args.plots {
        plot::draw(folder, &lines)?;
    }
    Ok(ExitCode::SUCCESS)
}
