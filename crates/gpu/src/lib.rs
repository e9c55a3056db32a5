//! MD5, SHA-1, SHA-256 and AES of many independent messages on an NVIDIA card, one message a
//! thread; and where content-defined chunking may cut data that are there.
//!
//! The driver is found at run time: nothing of CUDA is needed to build this, and a machine without
//! a card gets an [`Error`] that says so.
//!
//! ```no_run
//! use tabane_gpu::{Algorithm, Card, Options};
//!
//! let card = Card::open(&Options::default())?;
//! // From the machine's memory: packed, copied and hashed, several slots at a time.
//! let digests = card.hash_many(Algorithm::Sha1, &[b"abc", b"abcd"])?;
//! assert_eq!(digests.len(), 2 * Algorithm::Sha1.digest_len());
//!
//! // What is on the card already is hashed where it is.
//! let mut data = card.allocate(1 << 20)?;
//! data.write(&[7; 1 << 20])?;
//! let messages = card.messages(&[0..4096, 4096..1 << 20])?;
//! let mut on_card = card.allocate(2 * 20)?;
//! card.hash_on_card(Algorithm::Sha1, &data, &messages, &mut on_card)?;
//! # Ok::<(), tabane_gpu::Error>(())
//! ```
//!
//! # How it is built
//!
//! * `kernels/`: CUDA C++. The same text is compiled for the processor and compared with OpenSSL by
//!   the tests.
//! * `ptx/`: what `ptx/build.py` makes of it with a compiler of one version; compiled into the
//!   program, and by the driver for the card.
//! * `driver`: the functions of `libcuda.so.1`. `context`: an open card and its streams. `kernel`:
//!   launching. `memory`, `staging`: buffers.
//! * `card`: all of it. `hash`, `aes`, `gear`: what is computed. `open`, with `known_answers`:
//!   before anything else is.

mod aes;
mod algorithm;
mod card;
mod context;
mod driver;
mod error;
mod gear;
mod hash;
mod kernel;
mod known_answers;
mod memory;
mod open;
mod staging;

pub use aes::{Aes, Design, Items, Message, Mode};
pub use algorithm::Algorithm;
pub use card::Card;
pub use context::Properties;
pub use error::Error;
pub use gear::{Gear, Marks};
pub use hash::{MESSAGE_MAX, Messages};
pub use memory::DeviceBuffer;
pub use open::Options;
