//! `tabane offload`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, bare_command, run};

/// A running service, which is ended in any case.
struct Service {
    child: Child,
    /// Open as long as it runs: it may print more.
    _output: BufReader<ChildStdout>,
}

impl Service {
    /// Starts it; returns the line that it prints when it serves.
    fn start(serve: &mut Command) -> (Self, String) {
        let mut child = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let service = Self {
            child,
            _output: output,
        };
        (service, line)
    }

    fn ends(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_until_a_signal_and_tells_what_it_does() {
    let bed = Bed::new();
    let socket = bed.path("run/offload.sock");
    let text = socket.display().to_string();
    let status = ["offload", "status", "--socket", &text];
    run(&mut bare_command(status)).fails(1, "offload.sock");

    let serve = ["offload", "serve", "--socket", &text, "--mode", "660"];
    let (service, line) = Service::start(&mut bare_command(serve));
    assert!(line.contains("serves at"), "{line}");
    run(&mut bare_command(serve)).fails(1, "somebody serves there");

    run(&mut bare_command(status))
        .succeeds()
        .says("clients    0 of 1024 at most, of which 0 have something to do; 0 messages wait")
        .says("md5        not worth asking for now");
    run(&mut bare_command(status.into_iter().chain(["--json"])))
        .succeeds()
        .says("\"clients\":[],\"clients_max\":1024")
        .says("\"from_bytes\":{\"aes-cbc\":null");
    service.ends();
    assert!(!socket.exists());
}

#[test]
fn status_tells_of_a_card() {
    let Some(driver) = crate::devices::driver("") else {
        return;
    };
    let bed = Bed::new();
    let socket = bed.path("offload.sock");
    let text = socket.display().to_string();
    let mut serve = bare_command(["--gpu=only", "offload", "serve", "--socket", &text]);
    serve.env("LD_LIBRARY_PATH", driver.path());
    let (service, _) = Service::start(&mut serve);
    let status = ["offload", "status", "--socket", &text];
    run(&mut bare_command(status))
        .succeeds()
        .says("card No card, but its shim: 0% of the work, 0% of its time: 0 B in 0 bundles");
    run(&mut bare_command(status.into_iter().chain(["--json"])))
        .succeeds()
        .says("\"cards\":[{\"name\":\"No card, but its shim\",\"bundles\":0,");
    service.ends();
}

#[test]
fn a_full_service_says_so() {
    let bed = Bed::new();
    let socket = bed.path("offload.sock");
    let text = socket.display().to_string();
    let serve = ["offload", "serve", "--socket", &text, "--clients", "0"];
    let (service, _) = Service::start(&mut bare_command(serve));
    run(&mut bare_command(["offload", "status", "--socket", &text]))
        .succeeds()
        .says("clients    0 of 0 at most")
        .says("other programs go on without the service");
    service.ends();
}

#[test]
fn a_name_too_long_for_a_socket_is_refused_before_anything_is_made() {
    let bed = Bed::new();
    let dir = bed.path("run");
    let socket = dir.join("s".repeat(108)).display().to_string();
    let serve = ["offload", "serve", "--socket", &socket];
    run(&mut bare_command(serve)).fails(1, "107 bytes at most");
    assert!(!dir.exists());
}

#[test]
fn a_mode_is_three_octal_digits() {
    let serve = ["offload", "serve", "--socket", "/nowhere/offload.sock"];
    run(&mut bare_command(
        serve.into_iter().chain(["--mode", "888"]),
    ))
    .fails(2, "octal");
}
