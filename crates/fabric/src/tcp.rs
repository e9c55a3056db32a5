//! The endpoint over TCP, which imitates remote writes and is always available.
//!
//! On the wire each write has a header of 16 bytes, little-endian: offset in the ring (8 bytes),
//! number of bytes that follow (4) and the immediate (4). The bytes are sent from their place and
//! received into the ring; only the kernel copies them.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use crate::endpoint::{Endpoint, Immediate, Queued};
use crate::queue;
use crate::ring::Ring;

const HEADER_LEN: usize = 16;

/// Parts of one write at most, the header among them.
const PARTS_MAX: usize = 8;

/// A connection over TCP. The stream's read and write timeouts limit its waits.
pub struct Tcp {
    incoming: Mutex<Incoming>,
    outgoing: Mutex<TcpStream>,
    stream: TcpStream,
    ring: Option<Arc<Ring>>,
}

/// Bytes of the next header: the end of one frame and the header behind it take one system call.
struct Incoming {
    stream: TcpStream,
    header: [u8; HEADER_LEN],
    have: usize,
}

impl Tcp {
    /// An endpoint over `stream`; the peer writes into `ring`, if given.
    ///
    /// # Errors
    /// When the system cannot give another handle of the stream.
    pub fn new(stream: TcpStream, ring: Option<Arc<Ring>>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            incoming: Mutex::new(Incoming {
                stream: stream.try_clone()?,
                header: [0; HEADER_LEN],
                have: 0,
            }),
            outgoing: Mutex::new(stream.try_clone()?),
            stream,
            ring,
        })
    }
}

impl Endpoint for Tcp {
    fn write(&self, offset: u64, parts: &[&[u8]], immediate: u32) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&offset.to_le_bytes());
        header[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        header[12..].copy_from_slice(&immediate.to_le_bytes());
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        slices[0] = IoSlice::new(&header);
        assert!(parts.len() < PARTS_MAX, "a write has few parts");
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let mut slices = &mut slices[..=parts.len()];
        let mut stream = self.outgoing.lock().expect("no panic under this lock");
        while !slices.is_empty() {
            match stream.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(explained(error)),
            }
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<u32> {
        let mut incoming = self.incoming.lock().expect("no panic under this lock");
        while incoming.have < HEADER_LEN {
            incoming.read(&mut [])?;
        }
        incoming.have = 0;
        let header = incoming.header;
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let offset = u64::from(field(0)) | u64::from(field(4)) << 32;
        let (len, immediate) = (field(8) as usize, field(12));
        let expected = match Immediate::parse(immediate) {
            Immediate::Frame(len) => len as usize,
            Immediate::Credit(_) => 0,
        };
        if len != expected {
            let text = format!("a peer announces {len} bytes and means {expected}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if let Immediate::Frame(_) = Immediate::parse(immediate) {
            let Some(ring) = &self.ring else {
                let text = "a peer writes to an end without a ring";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            let mut vacancy = ring.vacancy(offset, len)?;
            let mut filled = 0;
            while filled < len {
                filled += incoming.read(&mut vacancy[filled..])?;
            }
            vacancy.publish();
        }
        Ok(immediate)
    }

    fn queued(&self) -> Queued {
        queue::of(self.stream.as_fd())
    }

    fn close(&self) {
        // The stream may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Incoming {
    /// Reads into `bytes`, and what comes behind into the header. Returns how many bytes went into
    /// `bytes`.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = bytes.len();
        let mut slices = [
            IoSliceMut::new(bytes),
            IoSliceMut::new(&mut self.header[self.have..]),
        ];
        loop {
            match self.stream.read_vectored(&mut slices) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.have += count.saturating_sub(len);
                    return Ok(count.min(len));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(explained(error)),
            }
        }
    }
}

/// A timeout of a socket is told as one.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer")
        }
        _ => error,
    }
}
