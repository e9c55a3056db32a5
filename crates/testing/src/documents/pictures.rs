//! Pictures of the page for the documentation, of repositories that are made for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::{Span, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use crate::browser::Browser;
use crate::random::Random;

/// Days of daily backups.
const DAYS: i64 = 75;

/// Width of a picture, in pixels.
const WIDTH: u32 = 1080;

/// Quality of a picture, of 100.
const QUALITY: u32 = 75;

/// A folder with two repositories, and what is backed up into them.
struct Stage<'a> {
    tabane: &'a Path,
    place: TempDir,
}

impl Stage<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.tabane);
        command
            .args(words)
            .current_dir(self.place.path())
            .env("TABANE_CONFIG", self.path("config.toml"))
            .env("TABANE_CACHE_DIR", self.path("cache"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("TABANE_REPOSITORY");
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
    }

    /// Makes the repositories and their history.
    fn build(&self) {
        let place = self.place.path().display().to_string();
        let config = format!(
            "[repositories.home]\nurl = \"{place}/home\"\npassword-file = \"{place}/password\"\n\n\
             [repositories.disks]\nurl = \"striped:{place}/set.toml\"\npassword-file = \
             \"{place}/password\"\n\n[profiles.daily]\nrepo = \"@home\"\n\n\
             [profiles.daily.backup]\npaths = [\"/home/ada\"]\n"
        );
        fs::write(self.path("config.toml"), config).expect("written");
        fs::write(self.path("password"), "a password for pictures").expect("written");
        let mut random = Random::new(7);
        for (folder, count, len) in [("Pictures/2026", 40, 90_000), ("Music", 12, 400_000)] {
            let folder = self.path("ada").join(folder);
            fs::create_dir_all(&folder).expect("made");
            for number in 0..count {
                let file = folder.join(format!("{:04}.bin", number + 1));
                fs::write(file, random.noise(len)).expect("written");
            }
        }
        for name in [
            "thesis.tex",
            "budget.csv",
            "garden plan.md",
            "letter to Ada.txt",
        ] {
            let file = self.path("ada/Documents").join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            let line = |number: u64| format!("line {number} of {name}\n");
            fs::write(file, (1..=300).map(line).collect::<String>()).expect("written");
        }
        fs::create_dir_all(self.path("www/html")).expect("made");
        self.run(&["-r", "@home", "init", "--quiet"]);
        let now = Timestamp::now();
        for day in (0..=DAYS).rev() {
            let time = now
                .checked_sub(Span::new().hours(day * 24 + 3))
                .expect("a time");
            let time = time.to_string();
            self.change(day, &mut random);
            if day % 7 != 5 {
                let tag = if day % 7 == 0 { "weekly" } else { "daily" };
                self.back_up("@home", "ada", "/home/ada", "laptop", tag, &time);
            }
            if day > 4 {
                let page = self.path("www/html/index.html");
                fs::write(page, format!("<p>{day}</p>").repeat(3000)).expect("written");
                self.back_up("@home", "www", "/var/www", "server", "server", &time);
            }
        }
        let targets = ["disk-a", "disk-b", "disk-c", "disk-d", "disk-e"];
        let targets: Vec<String> = targets
            .iter()
            .map(|name| self.path(name).display().to_string())
            .collect();
        let mut words = vec!["-r", "@disks", "init", "--quiet"];
        words.extend(
            targets
                .iter()
                .flat_map(|target| ["--target", target.as_str()]),
        );
        self.run(&words);
        self.back_up(
            "@disks",
            "ada",
            "/home/ada",
            "laptop",
            "daily",
            &now.to_string(),
        );
    }

    /// What a day brings.
    fn change(&self, day: i64, random: &mut Random) {
        let plan = self.path("ada/Documents/garden plan.md");
        let text = fs::read_to_string(&plan).expect("there");
        let line = format!("line {} of", 2 + day % 290);
        let with = format!("{day} days before, line {} of", 2 + day % 290);
        fs::write(plan, text.replacen(&line, &with, 1)).expect("written");
        let picture = self
            .path("ada/Pictures/2026")
            .join(format!("new-{day:02}.bin"));
        let len = 20_000 + random.below(180_000) as usize;
        fs::write(picture, random.noise(len)).expect("written");
    }

    fn back_up(&self, repo: &str, folder: &str, path: &str, host: &str, tag: &str, time: &str) {
        self.run(&[
            "-r",
            repo,
            "backup",
            "--quiet",
            "--as-path",
            path,
            "--host",
            host,
            "--tag",
            tag,
            "--time",
            time,
            folder,
        ]);
    }
}

/// A server of the page, until it is dropped.
struct Served {
    child: Child,
    with_token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Draws the pictures into `figures`, with the program `tabane`; returns their names, none without
/// a browser.
pub fn draw(tabane: &Path, figures: &Path) -> Vec<String> {
    let Some(mut browser) = Browser::start() else {
        crate::not_checked("pictures of the page", "Chromium is not installed");
        return Vec::new();
    };
    let place = tempfile::Builder::new()
        .prefix("tabane-")
        .tempdir()
        .expect("a directory");
    let stage = Stage { tabane, place };
    stage.build();
    let mut command = stage.command(&["web", "--json", "--listen", "127.0.0.1:0", "--allow-jobs"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it says where it is");
    let serving: Value = serde_json::from_str(&line).expect("JSON");
    let with_token = serving["address"].as_str().expect("an address").to_owned();
    let served = Served { child, with_token };
    let base = served
        .with_token
        .split("/?")
        .next()
        .unwrap_or_default()
        .to_owned();
    browser.open(&served.with_token);
    browser.wait(
        "location.search === '' && document.readyState === 'complete' && \
         !!document.querySelector('.offers')",
    );
    let docs = "/repository/home/latest/files/home/ada/Documents?part=";
    let pages = [
        (
            "web-snapshots",
            "/repository/home?host=laptop".to_owned(),
            860,
            false,
        ),
        ("web-files", docs.to_owned(), 560, false),
        (
            "web-search",
            "/repository/home/search?q=new-1".to_owned(),
            560,
            false,
        ),
        (
            "web-retention",
            "/repository/home/retention".to_owned(),
            860,
            false,
        ),
        (
            "web-redundancy",
            "/repository/disks/redundancy".to_owned(),
            900,
            true,
        ),
    ];
    let mut drawn = Vec::new();
    for (name, target, height, dark) in pages {
        if name == "web-redundancy" {
            for disk in ["disk-b", "disk-d"] {
                fs::remove_dir_all(stage.path(disk)).expect("removed");
            }
        }
        browser.size(WIDTH, height);
        browser.dark(dark);
        browser.open(&format!("{base}{target}"));
        // The folder of the stage says nothing to a reader.
        let hidden = stage.place.path().display().to_string();
        browser.eval(&format!(
            "(() => {{ const walk = document.createTreeWalker(document.body, 4); let node; while \
             (node = walk.nextNode()) node.nodeValue = node.nodeValue.replaceAll({hidden:?}, \
             '/mnt') }})()"
        ));
        let file = format!("{name}.webp");
        browser.draw_small(&figures.join(&file), QUALITY);
        drawn.push(file);
    }
    drawn
}
