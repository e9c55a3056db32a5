//! Tables and JSON.

use serde_json::{Map, Value, json};
use tabane_bench::peers::openssl::OpenSsl;

use super::card::Bench;
use super::{Args, Line, Subject, Unit};

/// Says what is measured where, and what is missing.
pub fn heading(
    args: &Args,
    card: Result<&Bench, &tabane_gpu::Error>,
    openssl: Option<&OpenSsl>,
    cpus: usize,
) {
    let missing = card.err().map(ToString::to_string);
    if args.json {
        println!(
            "{}",
            json!({
                "bench": "gpu",
                "what": "heading",
                "processors": cpus,
                "card": card.ok().map(|card| card.properties().name.clone()),
                "card_missing": missing,
                "bus_to_card_bytes_per_s": card.ok().map(|card| card.bus.0.round()),
                "bus_from_card_bytes_per_s": card.ok().map(|card| card.bus.1.round()),
                "openssl": openssl.map(|openssl| openssl.version.clone()),
                "data_mib": args.data,
                "rounds": args.rounds,
            })
        );
        return;
    }
    match card {
        Ok(card) => {
            let properties = card.properties();
            println!(
                "{}, {} multiprocessors at {:.2} GHz, memory {:.0} GB/s; bus {:.1} GB/s to it, \
                {:.1} GB/s from it",
                properties.name,
                properties.multiprocessors,
                properties.clock_hz as f64 / 1e9,
                properties.memory_bytes_per_s as f64 / 1e9,
                card.bus.0 / 1e9,
                card.bus.1 / 1e9,
            );
        }
        Err(error) => println!("NOT MEASURED: everything of a card: {error}"),
    }
    match openssl {
        Some(openssl) => println!("{}; {cpus} processors", openssl.version),
        None => println!("NOT MEASURED: OpenSSL is left out or not installed; {cpus} processors"),
    }
}

/// Prints one line as JSON, so that an interrupted run leaves what it has measured.
pub fn print_json(card: Option<&Bench>, line: &Line) {
    println!("{}", as_json(card, line));
}

/// Prints tables of all lines, with the bound of the card and the fraction that it reached.
pub fn print_tables(card: Option<&Bench>, lines: &[Line]) {
    for subject in Subject::ALL {
        let bytes = match subject {
            Subject::Hash(_) => "bytes a message",
            Subject::Aes(_) | Subject::Cuts => "bytes in all",
        };
        println!("\n{subject}, GB/s");
        print!("{bytes:>16}");
        Unit::ALL
            .iter()
            .for_each(|unit| print!("  {:>18}", unit.name()));
        println!("  {:>8}  {:>8}", "bound", "reached");
        for line in lines.iter().filter(|line| line.subject == subject) {
            print!("{:>16}", line.len);
            for unit in Unit::ALL {
                match line.rate(unit) {
                    Some(rate) => print!("  {:>18.3}", rate / 1e9),
                    None => print!("  {:>18}", "-"),
                }
            }
            match card.map(|card| card.bound(subject)) {
                Some(bound) => println!(
                    "  {:>8.0}  {:>8.2}",
                    bound / 1e9,
                    best_resident(line) / bound
                ),
                None => println!("  {:>8}  {:>8}", "-", "-"),
            }
        }
    }
}

fn best_resident(line: &Line) -> f64 {
    let resident = [Unit::CardResident, Unit::CardResidentBits];
    resident
        .into_iter()
        .filter_map(|unit| line.rate(unit))
        .fold(0.0, f64::max)
}

fn as_json(card: Option<&Bench>, line: &Line) -> Value {
    let mut object = Map::new();
    object.insert("bench".to_owned(), json!("gpu"));
    object.insert("what".to_owned(), json!(line.subject.to_string()));
    object.insert("bytes".to_owned(), json!(line.len));
    for unit in Unit::ALL {
        let name = unit
            .name()
            .replace(", ", "_")
            .replace(' ', "_")
            .to_lowercase();
        object.insert(
            format!("{name}_bytes_per_s"),
            json!(line.rate(unit).map(f64::round)),
        );
    }
    let bound = card.map(|card| card.bound(line.subject));
    object.insert("bound_bytes_per_s".to_owned(), json!(bound.map(f64::round)));
    let reached = bound.map(|bound| best_resident(line) / bound);
    object.insert("reached".to_owned(), json!(reached));
    Value::Object(object)
}
