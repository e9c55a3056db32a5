//! A server of the page, and a browser's part of the conversation.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tabane_testing::http::{self, Answer};

use crate::bed::Bed;

/// A server that ends with the test, and a session.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
    /// The address with the token, as it is printed.
    pub with_token: String,
    pub cookie: String,
}

impl Served {
    /// Serves the repository of the bed, with these arguments more.
    pub fn start(bed: &Bed, args: &[&str]) -> Self {
        Self::start_with(bed, args, |_| {})
    }

    /// The same with a change to the command.
    pub fn start_with(bed: &Bed, args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = bed.command(["web", "--json", "--listen", "127.0.0.1:0"]);
        command.args(args).stdout(Stdio::piped());
        command.env("XDG_STATE_HOME", bed.path("state"));
        command.env("XDG_CONFIG_HOME", bed.path("no-configuration"));
        change(&mut command);
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it is");
        let serving: Value = serde_json::from_str(&line).expect("JSON");
        let with_token = serving["address"].as_str().expect("an address").to_owned();
        let (_, rest) = with_token.split_once("://").expect("a scheme");
        let (address, target) = rest.split_once('/').expect("a path");
        let address: SocketAddr = address.parse().expect("an address");
        let mut served = Self {
            child,
            address,
            with_token: with_token.clone(),
            cookie: String::new(),
        };
        if target.is_empty() {
            // A password or a certificate lets in, and no token.
            return served;
        }
        let entered = http::request(address, "GET", &format!("/{target}"), &[], b"");
        let cookie = entered.header("set-cookie").split(';').next();
        served.cookie = cookie.unwrap_or_default().to_owned();
        served
    }

    /// The token.
    pub fn token(&self) -> &str {
        self.with_token.split("token=").nth(1).expect("a token")
    }

    /// Asks for a page with the session.
    #[track_caller]
    pub fn get(&self, target: &str) -> Answer {
        http::request(
            self.address,
            "GET",
            target,
            &[("Cookie", &self.cookie)],
            b"",
        )
    }

    /// A page that is there.
    #[track_caller]
    pub fn page(&self, target: &str) -> String {
        let answer = self.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        answer.text()
    }

    /// Sends a form as a browser does, with the token of the page it stands on.
    #[track_caller]
    pub fn post(&self, page: &str, target: &str, fields: &str) -> Answer {
        let text = self.page(page);
        let token = text.split("name=\"form-token\" value=\"").nth(1);
        let token = token
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("none");
        let body = format!("form-token={token}&{fields}");
        self.send(target, &body)
    }

    /// Sends a form with just these fields.
    #[track_caller]
    pub fn send(&self, target: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("Cookie", &self.cookie[..]),
            ("Origin", &origin),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        http::request(self.address, "POST", target, &headers, body.as_bytes())
    }

    /// The address of a path in the latest snapshot; `what` is `files`, `raw` or the like.
    pub fn of(&self, what: &str, path: &std::path::Path) -> String {
        format!("/repository/repository/latest/{what}{}", path.display())
    }

    /// Ends the server as a service is ended; returns what it ended with.
    pub fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
