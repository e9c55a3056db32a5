//! The design of the paper, rebuilt: a process that manages, takes requests over a socket, and
//! starts a thread for each. Data are in a file in memory that both sides have open.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tabane_lanes::aes::{self, Key};
use tabane_lanes::{Algorithm, hash_one};

/// Serves until this process ends. Clients name the file with their data first.
pub fn serve(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).context("cannot make a socket")?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || drop(serve_client(client)));
        }
    });
    Ok(())
}

/// A request: the algorithm's number, and the length of the message.
type Request = [u8; 16];

fn serve_client(mut client: UnixStream) -> Result<()> {
    let mut len = [0; 8];
    client.read_exact(&mut len)?;
    let mut name = vec![0; u64::from_le_bytes(len) as usize];
    client.read_exact(&mut name)?;
    let data = open(Path::new(std::str::from_utf8(&name)?))?;
    let mut request = Request::default();
    loop {
        client.read_exact(&mut request)?;
        let (mut client, data) = (client.try_clone()?, data.try_clone()?);
        std::thread::spawn(move || -> Result<()> {
            work(&data, &request)?;
            client.write_all(&[1])?;
            Ok(())
        });
    }
}

fn work(data: &File, request: &Request) -> Result<()> {
    let number = |at: usize| u64::from_le_bytes(request[at..at + 8].try_into().expect("8 bytes"));
    let mut message = vec![0; number(8) as usize];
    data.read_exact_at(&mut message, 0)?;
    match Algorithm::ALL.get(number(0) as usize) {
        Some(&algorithm) => data.write_all_at(hash_one(algorithm, &message).as_bytes(), 0)?,
        None => {
            aes::cbc_encrypt(&Key::new(&[7; 16])?, &mut [7; 16], &mut message[..])?;
            data.write_all_at(&message, 0)?;
        }
    }
    Ok(())
}

fn open(file: &Path) -> Result<File> {
    Ok(OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(file)?)
}

/// The side that asks.
pub struct Client {
    socket: UnixStream,
    data: File,
    algorithm: u64,
    out: Vec<u8>,
}

impl Client {
    /// Of an algorithm by the name that [`Algorithm`] has; of AES-128-CBC otherwise.
    pub fn connect(socket: &Path, algorithm: &str, len: usize) -> Result<Self> {
        let file = Path::new("/dev/shm").join(format!("tabane-p1-{}", std::process::id()));
        let data = open(&file)?;
        let mut socket = UnixStream::connect(socket)?;
        let name = file.to_str().context("a name")?.as_bytes();
        socket.write_all(&(name.len() as u64).to_le_bytes())?;
        socket.write_all(name)?;
        let known = Algorithm::ALL
            .iter()
            .position(|known| known.name() == algorithm);
        let mut client = Self {
            socket,
            data,
            algorithm: known.unwrap_or(usize::MAX) as u64,
            out: vec![0; len],
        };
        client.run(&vec![0; len])?;
        std::fs::remove_file(file)?;
        Ok(client)
    }

    /// Has a message done.
    pub fn run(&mut self, message: &[u8]) -> Result<()> {
        self.data.write_all_at(message, 0)?;
        let mut request = Request::default();
        request[..8].copy_from_slice(&self.algorithm.to_le_bytes());
        request[8..].copy_from_slice(&(message.len() as u64).to_le_bytes());
        self.socket.write_all(&request)?;
        let mut done = [0];
        self.socket.read_exact(&mut done)?;
        ensure!(done == [1], "the service failed");
        self.data.read_exact_at(&mut self.out, 0)?;
        Ok(())
    }
}
