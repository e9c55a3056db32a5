//! Greetings that take too long.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time limit of a connection's greeting.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection during its greeting, which may take [`GREETING_TIMEOUT`] in all, even if single
/// bytes keep arriving.
pub struct Hasty<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Hasty<'a> {
    pub fn new(stream: &'a TcpStream) -> Self {
        let end = Instant::now() + GREETING_TIMEOUT;
        Self { stream, end }
    }

    pub fn late(&self) -> io::Error {
        let text = format!(
            "it has sent no complete greeting within {} s",
            GREETING_TIMEOUT.as_secs()
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl Read for Hasty<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.late());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => self.late(),
            _ => error,
        })
    }
}

impl Write for Hasty<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
