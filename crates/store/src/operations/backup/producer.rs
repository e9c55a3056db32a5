//! A command whose output is stored.

use std::ffi::OsString;
use std::process::{Child, ChildStdout, Command, Stdio};

use tabane_format::{Error, Result};

/// A running command, killed if dropped before its end.
pub struct Producer {
    name: String,
    child: Child,
}

impl Producer {
    /// Starts a command: a program and its arguments. Its standard error is this program's.
    ///
    /// # Errors
    /// [`Error::Producer`] if it cannot be started.
    pub fn start(command: &[OsString]) -> Result<(Self, ChildStdout)> {
        let Some((program, arguments)) = command.split_first() else {
            let text = "no command is given whose output is to be stored";
            return Err(Error::Invalid(text.to_owned()));
        };
        let name = program.display().to_string();
        let started = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| Error::Producer {
            command: name.clone(),
            why: error.to_string(),
        })?;
        let output = child.stdout.take().expect("it is a pipe");
        Ok((Self { name, child }, output))
    }

    /// Waits for the end of the command, whose output was read to its end.
    ///
    /// # Errors
    /// [`Error::Producer`] if it did not succeed.
    pub fn finish(mut self) -> Result<()> {
        let why = match self.child.wait() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Error::Producer {
            command: self.name.clone(),
            why,
        })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // The command may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
