//! A network in this machine: a namespace for each member, all linked to one bridge at a rate.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tabane_striped::cluster::file::NodeAddress;

use crate::member::Member;

/// Namespaces and links, which vanish with this.
pub struct Network {
    prefix: String,
    members: usize,
}

impl Network {
    /// A network of `members` whose links carry `mbit_per_s` each way; without a limit if `None`.
    ///
    /// # Errors
    /// When the programs `ip` and `tc` are missing, or the caller is not root.
    pub fn new(members: usize, mbit_per_s: Option<u32>) -> Result<Self> {
        Self::with_rates(&vec![mbit_per_s; members])
    }

    /// The same, with a rate for each member.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub fn with_rates(mbit_per_s: &[Option<u32>]) -> Result<Self> {
        let members = mbit_per_s.len();
        ensure!(
            rustix::process::geteuid().is_root(),
            "making networks takes root: run it with sudo"
        );
        let network = Self {
            prefix: format!("tb{}", std::process::id()),
            members,
        };
        let hub = network.hub();
        run(&["ip", "netns", "add", &hub])?;
        run(&["ip", "-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        run(&["ip", "-n", &hub, "link", "set", "bridge", "up"])?;
        for (member, mbit_per_s) in mbit_per_s.iter().enumerate() {
            let (name, port) = (network.name(member), format!("port{member}"));
            let address = format!("{}/16", network.address(member));
            run(&["ip", "netns", "add", &name])?;
            run(&[
                "ip", "-n", &hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0",
                "netns", &name,
            ])?;
            run(&[
                "ip", "-n", &hub, "link", "set", &port, "master", "bridge", "up",
            ])?;
            run(&["ip", "-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            run(&["ip", "-n", &name, "link", "set", "eth0", "up"])?;
            run(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
            // Most systems have it; others share links worse.
            let cubic = "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control";
            run(&["ip", "netns", "exec", &name, "sh", "-c", cubic])?;
            if let Some(rate) = mbit_per_s {
                network.limit(member, *rate)?;
            }
        }
        Ok(network)
    }

    /// Lets the link of a member carry so much each way from now on.
    pub fn limit(&self, member: usize, mbit_per_s: u32) -> Result<()> {
        let rate = format!("{mbit_per_s}mbit");
        let (hub, name, port) = (self.hub(), self.name(member), format!("port{member}"));
        for (space, device) in [(&hub, port.as_str()), (&name, "eth0")] {
            run(&[
                "tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate,
                "burst", "128kb", "latency", "30ms",
            ])?;
        }
        Ok(())
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    fn name(&self, member: usize) -> String {
        format!("{}-{member}", self.prefix)
    }

    /// The IP address of a member.
    pub fn address(&self, member: usize) -> String {
        format!("10.77.{}.{}", member / 200, member % 200 + 1)
    }

    /// The first members as nodes of a cluster.
    pub fn addresses(&self, nodes: usize) -> Vec<NodeAddress> {
        let node = |number| {
            NodeAddress::new(
                format!("n{number}"),
                format!("{}:7440", self.address(number)),
            )
        };
        (0..nodes).map(node).collect()
    }

    /// This program, to be run by a member.
    pub fn command(&self, member: usize) -> Result<Command> {
        let program = std::env::current_exe().context("cannot find this program")?;
        Ok(self.command_of(member, &program))
    }

    /// A program, to be run by a member.
    pub fn command_of(&self, member: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(member)])
            .arg(program);
        command
    }

    /// Starts this program as a [`Member`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn member(&self, member: usize, words: &[&str]) -> Result<Member> {
        Member::start(self.command(member)?, words)
    }

    /// Lets the calling thread, and those that it starts, act as a member.
    pub fn enter(&self, member: usize) -> Result<()> {
        let path = format!("/run/netns/{}", self.name(member));
        let space = std::fs::File::open(&path).with_context(|| format!("cannot open {path}"))?;
        let kind = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(space.as_fd(), kind)?)
    }

    /// Drops, silently, what two members send each other, or (`cut` false) lets it through again.
    pub fn cut_between(&self, a: usize, b: usize, cut: bool) -> Result<()> {
        self.cut_way(a, b, cut)?;
        self.cut_way(b, a, cut)
    }

    /// The same, one way only.
    pub fn cut_way(&self, from: usize, to: usize, cut: bool) -> Result<()> {
        let act = if cut { "add" } else { "del" };
        let to = format!("{}/32", self.address(to));
        run(&["ip", "-n", &self.name(from), "route", act, "blackhole", &to])
    }

    /// Cuts a member off from all others, or (`cut` false) connects it again.
    pub fn cut_off(&self, member: usize, cut: bool) -> Result<()> {
        let state = if cut { "down" } else { "up" };
        let port = format!("port{member}");
        run(&["ip", "-n", &self.hub(), "link", "set", &port, state])
    }

    /// Bytes that a member has received and sent so far.
    pub fn traffic(&self, member: usize) -> Result<(u64, u64)> {
        let text = Command::new("ip")
            .args(["netns", "exec", &self.name(member), "cat"])
            .args(["rx", "tx"].map(|way| format!("/sys/class/net/eth0/statistics/{way}_bytes")))
            .output()
            .context("cannot run ip")?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let mut numbers = text.lines().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(received)), Some(Ok(sent))) => Ok((received, sent)),
            _ => anyhow::bail!("cannot read the counters of a link"),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let names = (0..self.members).map(|member| self.name(member));
        for name in names.chain([self.hub()]) {
            let _ = Command::new("ip")
                .args(["netns", "del", &name])
                .stderr(Stdio::null())
                .status();
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}: install iproute2", words[0]))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
