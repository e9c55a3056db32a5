//! Commands and web addresses that hear how a run begins and ends.

use std::ffi::OsStr;
use std::io::stderr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args};
use reqwest::Url;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tabane_store::Error;

use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::warn;
use crate::process;

/// Interval of checks whether a hook has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Time limit of a web address's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The options for it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Hooks")]
pub struct Hooks {
    /// Run this with sh before anything else; if it fails, nothing is done and the exit code is 1
    /// (repeatable, here and below)
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    run_before: Vec<String>,
    /// Run this when the exit code is 0; if it fails, the exit code is 1
    ///
    /// Hooks have TABANE_HOOK_COMMAND (as backup), TABANE_HOOK_EXIT_CODE and TABANE_HOOK_ERROR, a
    /// sentence, in their environment. What they print goes to standard error.
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    run_after: Vec<String>,
    /// Run this when the exit code is not 0
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    run_failed: Vec<String>,
    /// Run this in the end, whatever the exit code is
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    run_finally: Vec<String>,
    /// Kill a hook that runs longer than this: it has failed
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10m",
        hide_short_help = true
    )]
    #[arg(value_parser = parse_timeout)]
    hook_timeout: Duration,
    /// Tell a monitor such as Healthchecks: URL/start at the beginning, URL/EXIT_CODE in the end
    ///
    /// The error is the body of the request. That nobody answers is a warning, and changes no exit
    /// code.
    #[arg(long, value_name = "URL", env = "TABANE_PING", hide_env_values = true)]
    #[arg(value_parser = WebAddress, hide_short_help = true)]
    ping: Option<String>,
    /// Post a JSON object with command, exit_code, error and seconds to this address in the end
    #[arg(
        long,
        value_name = "URL",
        env = "TABANE_WEBHOOK",
        hide_env_values = true
    )]
    #[arg(value_parser = WebAddress, hide_short_help = true)]
    webhook: Option<String>,
}

/// Reads an address of the web. It may be a secret, so no message has it.
#[derive(Clone)]
struct WebAddress;

impl TypedValueParser for WebAddress {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, clap::Error> {
        let address = StringValueParser::new().parse_ref(command, arg, value)?;
        match Url::parse(&address) {
            Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(address),
            _ => {
                let option = arg.and_then(Arg::get_long).unwrap_or_default();
                let text = format!(
                    "the address of --{option} is none of the web: write all of it, from https:// \
                     or http:// on"
                );
                Err(command.clone().error(ErrorKind::ValueValidation, text))
            }
        }
    }
}

impl Hooks {
    /// These commands, and no web address.
    pub fn without_monitors(&self) -> Self {
        Self {
            ping: None,
            webhook: None,
            ..self.clone()
        }
    }

    /// Runs `command` between its hooks. `run` also returns a sentence for an exit code other than
    /// 0 that is no error.
    ///
    /// # Errors
    /// A failed hook before `run`, the error of `run`, or a failed hook after it, whichever comes
    /// first.
    pub fn around(
        &self,
        command: &str,
        run: impl FnOnce() -> (Result<Exit>, String),
    ) -> Result<Exit> {
        let start = Instant::now();
        if !self.is_none() {
            // After a signal the others hear of it.
            process::end_after_signals();
            let (hooks, command) = (self.clone(), command.to_owned());
            process::owe_last_words(move || {
                let interrupted = Err(Failure::Store(Error::Cancelled));
                let _ = hooks.behind(&command, start, interrupted, "");
            });
        }
        self.ping("start", String::new());
        let before = vec![("TABANE_HOOK_COMMAND", command.to_owned())];
        let ready = self.run_all(
            "--run-before",
            &self.run_before,
            &before,
            process::is_interrupted,
        );
        let (result, sentence) = match ready {
            Ok(()) => run(),
            Err(_) if process::is_interrupted() => {
                (Err(Failure::Store(Error::Cancelled)), String::new())
            }
            Err(why) => {
                let text = format!("{why}, so nothing was done");
                (Err(Failure::Other(text)), String::new())
            }
        };
        if self.is_none() {
            return result;
        }
        process::take_last_words();
        self.behind(command, start, result, &sentence)
    }

    /// Whether nobody is to hear anything.
    fn is_none(&self) -> bool {
        let hooks = [
            &self.run_before,
            &self.run_after,
            &self.run_failed,
            &self.run_finally,
        ];
        hooks.iter().all(|hooks| hooks.is_empty()) && self.ping.is_none() && self.webhook.is_none()
    }

    /// Runs the hooks behind a command, and tells the web addresses.
    fn behind(
        &self,
        command: &str,
        start: Instant,
        mut result: Result<Exit>,
        sentence: &str,
    ) -> Result<Exit> {
        let outcome = |result: &Result<Exit>| match result {
            Ok(Exit::Success) => (0, String::new()),
            Ok(exit) => (*exit as u8, sentence.to_owned()),
            Err(failure) => (failure.exit() as u8, failure.to_string()),
        };
        let environment = |result: &Result<Exit>| {
            let (code, error) = outcome(result);
            vec![
                ("TABANE_HOOK_COMMAND", command.to_owned()),
                ("TABANE_HOOK_EXIT_CODE", code.to_string()),
                ("TABANE_HOOK_ERROR", error),
            ]
        };
        // A signal ends these hooks too, and those that follow hear of it.
        let run = |option, hooks: &[String], result: &mut Result<Exit>| {
            let was_interrupted = process::is_interrupted();
            let is_over = if was_interrupted {
                || false
            } else {
                process::is_interrupted
            };
            let ran = self.run_all(option, hooks, &environment(result), is_over);
            if ran.is_err() && !was_interrupted && process::is_interrupted() {
                *result = Err(Failure::Store(Error::Cancelled));
                return Ok(());
            }
            ran
        };
        if matches!(result, Ok(Exit::Success))
            && let Err(why) = run("--run-after", &self.run_after, &mut result)
        {
            result = Err(Failure::Other(why));
        }
        if !matches!(result, Ok(Exit::Success)) {
            run("--run-failed", &self.run_failed, &mut result).unwrap_or_else(warn);
        }
        run("--run-finally", &self.run_finally, &mut result).unwrap_or_else(warn);
        let (code, error) = outcome(&result);
        self.ping(&code.to_string(), error.clone());
        if let Some(url) = &self.webhook {
            let error = if error.is_empty() {
                Value::Null
            } else {
                error.into()
            };
            let body = json!({
                "program": "tabane",
                "command": command,
                "exit_code": code,
                "error": error,
                "seconds": start.elapsed().as_secs_f64(),
            });
            tell("--webhook", url, body.to_string(), "application/json");
        }
        result
    }

    /// Runs hooks one after the other, until one fails. One is killed when `is_over` says so.
    fn run_all(
        &self,
        option: &str,
        hooks: &[String],
        environment: &[(&str, String)],
        is_over: fn() -> bool,
    ) -> std::result::Result<(), String> {
        for hook in hooks {
            let why = match self.run(hook, environment, is_over) {
                Ok(Some(status)) if status.success() => continue,
                Ok(Some(status)) => format!("failed ({status})"),
                Ok(None) => format!(
                    "was killed after {}, its --hook-timeout",
                    format::duration(self.hook_timeout)
                ),
                Err(error) => format!("cannot be run: {error}"),
            };
            return Err(format!("the hook {option} {hook:?} {why}"));
        }
        Ok(())
    }

    /// Runs a hook; nothing if it took too long and was killed, with all that it started.
    fn run(
        &self,
        hook: &str,
        environment: &[(&str, String)],
        is_over: fn() -> bool,
    ) -> std::io::Result<Option<ExitStatus>> {
        let mut child = Command::new("sh")
            .args(["-c", hook])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(stderr())
            .process_group(0)
            .spawn()?;
        let _group = process::ends_with_this(&child);
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if start.elapsed() >= self.hook_timeout || is_over() {
                let group = Pid::from_child(&child);
                // The process may have ended just now.
                let _ = kill_process_group(group, Signal::KILL);
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Tells the monitor.
    fn ping(&self, what: &str, body: String) {
        if let Some(url) = &self.ping {
            // What follows a question mark stays behind the path.
            let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
            let url = format!("{}/{what}{query}", path.trim_end_matches('/'));
            tell("--ping", &url, body, "text/plain; charset=utf-8");
        }
    }
}

fn parse_timeout(text: &str) -> std::result::Result<Duration, String> {
    match format::parse_duration(text)? {
        Duration::ZERO => {
            Err("it takes some time: 10m, or 365d for as good as no limit".to_owned())
        }
        timeout => Ok(timeout),
    }
}

/// Posts `body`, and warns of a failure. The address may be a secret, and is not shown.
fn tell(option: &str, url: &str, body: String, content_type: &str) {
    let post = async {
        let client = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).build()?;
        let request = client.post(url).header("content-type", content_type);
        let answer = request.body(body).send().await?;
        answer.error_for_status().map(|_| ())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let told = match runtime {
        Ok(runtime) => runtime
            .block_on(post)
            .map_err(|error| causes(&error.without_url())),
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = told {
        warn(format!("the address of {option} was not told: {why}"));
    }
}

/// An error with what caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
