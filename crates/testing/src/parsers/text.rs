//! Files that people write, type or receive: check files, keys as text, lists of clients.

use std::num::NonZeroU64;

use tabane_format::key_text::KeyText;
use tabane_server::clients::Clients;
use tabane_storage::is_repository_name;
use tabane_sum::{Accept, Algorithm, Format, Line, Parser, Style, Upload};

/// Reads the lines of a check file. The first byte chooses what the file may have.
pub fn check_file(input: &[u8]) {
    let Some((&first, file)) = input.split_first() else {
        return;
    };
    let algorithms: Vec<_> = Algorithm::all().collect();
    let algorithm = algorithms[usize::from(first / 3) % algorithms.len()];
    let accept = match first % 3 {
        0 => Accept::Only(algorithm),
        1 => Accept::AnyTagged(algorithm),
        _ => Accept::Etags(Upload::new(
            NonZeroU64::new(first.into()).expect("at least 2"),
        )),
    };
    let mut parser = Parser::new(accept);
    for line in file.split(|&byte| byte == b'\n') {
        if let Some(line) = parser.parse(line) {
            write_and_read_back(&line, accept);
        }
    }
}

/// What is a line is one again when it is written.
fn write_and_read_back(line: &Line, accept: Accept) {
    assert!(!line.name.contains(&0));
    let algorithm = line.algorithm;
    let style = match accept {
        Accept::Only(_) | Accept::AnyTagged(_) => Style::Tagged(algorithm),
        // Only a tagged line can have an empty name.
        Accept::Etags(_) if line.name.is_empty() => return,
        Accept::Etags(_) => Style::Untagged {
            algorithm,
            binary: false,
        },
    };
    let mut written = Vec::new();
    Format::new(style).write(&line.sum, &line.name, &mut written);
    assert_eq!(written.pop(), Some(b'\n'));
    assert!(!written.contains(&b'\n') && !written.contains(&b'\r'));
    assert_eq!(Parser::new(accept).parse(&written).as_ref(), Some(line));
}

pub fn check_file_samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for (number, algorithm) in Algorithm::all().enumerate() {
        let sum = "0123456789abcdef".repeat(16);
        let sum = &sum[..2 * algorithm.digest_len()];
        for first in [3 * number, 3 * number + 1] {
            let text = format!(
                "{sum}  a file\n{sum} *b\n{} (c) = {sum}\n\\{sum}  d\\\\e\\nf\n# no line\n",
                tabane_sum::tag(algorithm)
            );
            samples.push([&[first as u8], text.as_bytes()].concat());
        }
    }
    let md5 = "0123456789abcdef".repeat(2);
    let etags = format!("{md5}  a\n{md5}-2  b\nMD5 (c) = {md5}\n");
    samples.push([&[5], etags.as_bytes()].concat());
    samples
}

/// Reads a key that was printed or photographed.
pub fn key_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(read) = KeyText::parse(&text) {
        let lines = read.lines();
        for between in ["\n", "/"] {
            let again = KeyText::parse(&lines.join(between));
            assert_eq!(again.expect("a text that comes back"), read);
        }
    }
}

pub fn key_text_samples() -> Vec<Vec<u8>> {
    let text = KeyText {
        config: b"TABANEC\x02 a config".repeat(3),
        key: b"{ \"a key\": 1 }".repeat(2),
    };
    let empty = KeyText {
        config: Vec::new(),
        key: Vec::new(),
    };
    let (text, empty) = (text.lines(), empty.lines());
    [
        text.join("\n"),
        text.join("/").to_uppercase(),
        format!("A key.\r\n{}\r\n", empty.join("\r\n")),
        text[1..].join("\n"),
    ]
    .map(String::into_bytes)
    .into()
}

/// Reads the file that lists the clients of a storage server.
pub fn clients(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(clients) = Clients::parse(text) else {
        return;
    };
    let mut written = String::new();
    for client in clients.iter() {
        assert_eq!(clients.by_name(&client.name), Some(client));
        let mut names = client.repositories.iter();
        assert!(names.all(|name| is_repository_name(name)));
        written += &client.entry();
    }
    assert_eq!(Clients::parse(&written), Ok(clients));
}

pub fn clients_samples() -> Vec<Vec<u8>> {
    let hash = "ab".repeat(32);
    let samples = [
        format!(
            "[[client]]\nname = \"laptop\"\nrole = \"append\"\nrepositories = [\"laptop\"]\n\
             quota = 536870912000\ntoken = \"{hash}\"\n\n[[client]]\nname = \"desktop\"\n\
             role = \"append\"\nrepositories = [\"desktop\"]\ncertificate = \"{hash}\"\n"
        ),
        "client = [{name = 'a', role = \"admin\", repositories = ['b']}]".to_owned(),
        "[[client]]\nname = 'b'\nrole = 'read'\nrepositories = ['../x']\n".to_owned(),
    ];
    samples.map(String::into_bytes).into()
}
