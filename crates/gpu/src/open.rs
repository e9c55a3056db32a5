//! Opens a card, which is trusted once it has given known answers.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::algorithm::HashKernels;
use crate::card::Card;
use crate::context::Core;
use crate::driver::Driver;
use crate::error::Error;
use crate::known_answers;
use crate::staging::Ring;

/// Options of opening a card.
#[derive(Clone, Debug)]
pub struct Options {
    /// A card that has not answered for this long is given up.
    pub hang_bound: Duration,
    /// Staging memory, in bytes, on the card and as much of the machine's. Less is used if other
    /// programs hold most of the card's memory.
    pub staging: usize,
}

impl Default for Options {
    /// Ten seconds; 128 MiB.
    fn default() -> Self {
        Self {
            hang_bound: Duration::from_secs(10),
            staging: 128 << 20,
        }
    }
}

impl Card {
    /// Opens the first card of the machine.
    ///
    /// The driver compiles the kernels for it, which takes seconds the first time, and is kept by
    /// the driver for the next.
    ///
    /// # Errors
    /// There is no driver or card, or it is of no use: the error says why.
    pub fn open(options: &Options) -> Result<Self, Error> {
        Self::open_with(Path::new("libcuda.so.1"), options)
    }

    /// As [`Card::open`], with the driver at this path.
    ///
    /// # Errors
    /// As [`Card::open`].
    pub fn open_with(driver: &Path, options: &Options) -> Result<Self, Error> {
        let (core, properties, free) = Core::open(Driver::load(driver)?, options.hang_bound)?;
        let core = Arc::new(core);
        let hash_kernels = HashKernels::load(&core)?;
        let ring = Ring::new(&core, options.staging.min(free / 4), free)?;
        let card = Self {
            core,
            ring,
            hash_kernels,
            aes: OnceLock::new(),
            properties,
        };
        known_answers::hashes(&card).inspect_err(|error| card.core.give_up(error))?;
        Ok(card)
    }
}
