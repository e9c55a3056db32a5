//! Messages of SFTP version 3 (draft-ietf-secsh-filexfer-02), with extensions of OpenSSH.
//!
//! The server may be hostile: every length is checked before it is used.

use bytes::Bytes;

/// The version of the protocol that is spoken here, and that all servers know.
pub const VERSION: u32 = 3;

/// Bytes of a message at most. OpenSSH sends 256 KiB.
pub const MESSAGE_LEN_MAX: usize = 1 << 20;

/// The file is opened for reading.
pub const READ: u32 = 1;
/// The file is opened for writing, and made; it must not exist.
pub const WRITE_NEW: u32 = 0x2 | 0x8 | 0x20;

/// The status of success.
pub const OK: u32 = 0;
/// The status behind the last bytes of a file, and the last name of a directory.
pub const EOF: u32 = 1;
/// The status for what does not exist.
pub const NO_SUCH_FILE: u32 = 2;
/// The status for what the user may not do.
pub const PERMISSION_DENIED: u32 = 3;
/// The status for what the server cannot do.
pub const UNSUPPORTED: u32 = 8;

const ATTRIBUTE_SIZE: u32 = 1;
const ATTRIBUTE_OWNER: u32 = 2;
const ATTRIBUTE_PERMISSIONS: u32 = 4;
const ATTRIBUTE_TIMES: u32 = 8;
const ATTRIBUTE_EXTENDED: u32 = 1 << 31;

/// Bits of the permissions that say what kind of file it is, and those of a regular file.
const KIND_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// A request, without its number.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Opens a file; `mode` is for a new one.
    Open {
        path: &'a [u8],
        flags: u32,
        mode: u32,
    },
    Close(&'a [u8]),
    Read {
        handle: &'a [u8],
        offset: u64,
        len: u32,
    },
    Write {
        handle: &'a [u8],
        offset: u64,
        bytes: &'a [u8],
    },
    OpenDirectory(&'a [u8]),
    ReadDirectory(&'a [u8]),
    Remove(&'a [u8]),
    MakeDirectory {
        path: &'a [u8],
        mode: u32,
    },
    Stat(&'a [u8]),
    Rename {
        from: &'a [u8],
        to: &'a [u8],
    },
    /// An extension, by its name, with strings.
    Extended(&'static str, &'a [&'a [u8]]),
}

impl Request<'_> {
    /// The message, with its length in front.
    pub fn encode(&self, number: u32) -> Vec<u8> {
        let data_len = match self {
            Self::Write { bytes, .. } => bytes.len(),
            _ => 0,
        };
        let mut message = Vec::with_capacity(data_len + 128);
        message.extend([0; 4]);
        message.push(self.code());
        message.extend(number.to_be_bytes());
        let message = &mut message;
        match *self {
            Self::Open { path, flags, mode } => {
                put_string(message, path);
                put_number(message, flags);
                put_mode(message, mode);
            }
            Self::Read {
                handle,
                offset,
                len,
            } => {
                put_string(message, handle);
                message.extend(offset.to_be_bytes());
                put_number(message, len);
            }
            Self::Write {
                handle,
                offset,
                bytes,
            } => {
                put_string(message, handle);
                message.extend(offset.to_be_bytes());
                put_string(message, bytes);
            }
            Self::MakeDirectory { path, mode } => {
                put_string(message, path);
                put_mode(message, mode);
            }
            Self::Rename { from, to } => {
                put_string(message, from);
                put_string(message, to);
            }
            Self::Extended(name, strings) => {
                put_string(message, name.as_bytes());
                strings.iter().for_each(|text| put_string(message, text));
            }
            Self::Close(one)
            | Self::OpenDirectory(one)
            | Self::ReadDirectory(one)
            | Self::Remove(one)
            | Self::Stat(one) => put_string(message, one),
        }
        finish(message)
    }

    fn code(&self) -> u8 {
        match self {
            Self::Open { .. } => 3,
            Self::Close(_) => 4,
            Self::Read { .. } => 5,
            Self::Write { .. } => 6,
            Self::OpenDirectory(_) => 11,
            Self::ReadDirectory(_) => 12,
            Self::Remove(_) => 13,
            Self::MakeDirectory { .. } => 14,
            Self::Stat(_) => 17,
            Self::Rename { .. } => 18,
            Self::Extended(..) => 200,
        }
    }
}

/// The first message of a client.
pub fn greeting() -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, 1];
    put_number(&mut message, VERSION);
    finish(&mut message)
}

fn finish(message: &mut Vec<u8>) -> Vec<u8> {
    let len = (message.len() - 4) as u32;
    message[..4].copy_from_slice(&len.to_be_bytes());
    std::mem::take(message)
}

fn put_number(message: &mut Vec<u8>, number: u32) {
    message.extend(number.to_be_bytes());
}

fn put_string(message: &mut Vec<u8>, text: &[u8]) {
    put_number(message, text.len() as u32);
    message.extend_from_slice(text);
}

/// Attributes with nothing but a mode.
fn put_mode(message: &mut Vec<u8>, mode: u32) {
    put_number(message, ATTRIBUTE_PERMISSIONS);
    put_number(message, mode);
}

/// What a server says of itself at the beginning: its extensions.
pub fn parse_greeting(message: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut rest = Rest(message);
    if rest.byte()? != 2 || rest.number()? < VERSION {
        return None;
    }
    let mut extensions = Vec::new();
    while !rest.0.is_empty() {
        extensions.push((rest.string()?.to_vec(), rest.string()?.to_vec()));
    }
    Some(extensions)
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status, and the server's words for it.
    Status(u32, String),
    Handle(Vec<u8>),
    Data(Bytes),
    Names(Vec<(Vec<u8>, Attributes)>),
    Attributes(Attributes),
    /// The answer to an extension.
    Extended(Vec<u8>),
}

impl Reply {
    /// Parses a message without its length; `None` if it is malformed. The number is that of the
    /// request.
    pub fn parse(message: &Bytes) -> Option<(u32, Self)> {
        let mut rest = Rest(message);
        let code = rest.byte()?;
        let number = rest.number()?;
        let reply = match code {
            101 => {
                let status = rest.number()?;
                let text = rest.string().unwrap_or_default();
                Self::Status(status, String::from_utf8_lossy(text).into_owned())
            }
            102 => Self::Handle(rest.string()?.to_vec()),
            103 => {
                let len = rest.string()?.len();
                let end = message.len() - rest.0.len();
                Self::Data(message.slice(end - len..end))
            }
            104 => {
                let mut names = Vec::new();
                for _ in 0..rest.number()? {
                    let name = rest.string()?.to_vec();
                    // The line that `ls -l` would print.
                    rest.string()?;
                    names.push((name, rest.attributes()?));
                }
                Self::Names(names)
            }
            105 => Self::Attributes(rest.attributes()?),
            201 => Self::Extended(rest.0.to_vec()),
            _ => return None,
        };
        Some((number, reply))
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Length in bytes.
    pub size: Option<u64>,
    /// Kind and permissions, as Unix has them.
    pub mode: Option<u32>,
    /// Time of the last change, in seconds since 1970.
    pub mtime: Option<u32>,
}

impl Attributes {
    /// Whether it is a regular file, as far as the server tells.
    pub fn is_file(&self) -> bool {
        self.mode.is_none_or(|mode| mode & KIND_MASK == REGULAR)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode.is_some_and(|mode| mode & KIND_MASK == DIRECTORY)
    }
}

/// Numbers of an answer to `statvfs@openssh.com`: bytes that the user may still write.
pub fn free_bytes(answer: &[u8]) -> Option<u64> {
    let number = |place: usize| {
        let bytes = answer.get(8 * place..8 * place + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    // Its second field is the unit of the fifth.
    number(1)?.checked_mul(number(4)?)
}

/// Numbers of an answer to `limits@openssh.com`: bytes of a read and of a write at most.
pub fn limits(answer: &[u8]) -> Option<[u64; 2]> {
    let number = |place: usize| {
        let bytes = answer.get(8 * place..8 * place + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    Some([number(1)?, number(2)?])
}

/// What is left of a message.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(len as usize)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.number()?;
        let mut attributes = Attributes::default();
        if flags & ATTRIBUTE_SIZE != 0 {
            attributes.size = Some(self.long()?);
        }
        if flags & ATTRIBUTE_OWNER != 0 {
            self.take(8)?;
        }
        if flags & ATTRIBUTE_PERMISSIONS != 0 {
            attributes.mode = Some(self.number()?);
        }
        if flags & ATTRIBUTE_TIMES != 0 {
            self.number()?;
            attributes.mtime = Some(self.number()?);
        }
        if flags & ATTRIBUTE_EXTENDED != 0 {
            for _ in 0..self.number()? {
                self.string()?;
                self.string()?;
            }
        }
        Some(attributes)
    }
}
