//! ECB, CBC and CTR.

use super::tls_cbc::TlsRecords;
use super::{Call, Cipher, Mode, Offer, update_each};
use crate::abi::Param;
use crate::error::Reason;
use crate::guard::erase;
use crate::together;
use tabane_lanes::aes::{self, BLOCK, CbcJob, InOut, Key};

/// A message in one of these modes.
#[derive(Clone)]
pub(super) struct BlockCipher {
    offer: &'static Offer,
    key: Option<Key>,
    encrypt: bool,
    /// Whether an initialization vector was ever given.
    iv_set: bool,
    /// As it was given.
    original_iv: [u8; BLOCK],
    /// Input of the next block: the ciphertext before it, or its counter.
    iv: [u8; BLOCK],
    padding: bool,
    /// ECB and CBC: what has come since the last whole block. When decrypting with padding, a whole
    /// block is kept until more comes, since it may be the last. CTR: the keystream of the last
    /// block that was begun.
    buffer: [u8; BLOCK],
    /// ECB and CBC: how much of the buffer waits. CTR: how much is used; 0 if no block is begun.
    used: usize,
    /// Updates are whole records of TLS.
    tls: TlsRecords,
}

impl Drop for BlockCipher {
    /// Keys erase themselves.
    fn drop(&mut self) {
        erase(&mut self.buffer);
    }
}

impl BlockCipher {
    fn key(&self) -> Result<&Key, Reason> {
        self.key.as_ref().ok_or(Reason::NoKeySet)
    }

    /// Puts whole blocks through the cipher.
    // Always inlined: arguments in memory would cost as much as a block.
    #[inline(always)]
    fn blocks(&mut self, data: InOut) -> Result<(), Reason> {
        let key = self.key.as_ref().ok_or(Reason::NoKeySet)?;
        let done = match (self.offer.mode, self.encrypt) {
            (Mode::Cbc, true) => return together::cbc_encrypt(key, &mut self.iv, data),
            (Mode::Cbc, false) => aes::cbc_decrypt(key, &mut self.iv, data),
            (Mode::Ctr, _) => aes::ctr(key, &mut self.iv, data),
            (_, true) => aes::ecb_encrypt(key, data),
            (_, false) => aes::ecb_decrypt(key, data),
        };
        done.map_err(|_| Reason::CipherOperationFailed)
    }

    /// Puts the buffer's whole block through the cipher, in place.
    fn buffered_block(&mut self) -> Result<(), Reason> {
        let mut block = self.buffer;
        self.blocks((&mut block).into())?;
        self.buffer = block;
        erase(&mut block);
        Ok(())
    }

    /// An update of any kind.
    ///
    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn update_any(&mut self, call: Call) -> Result<usize, Reason> {
        self.key()?;
        if self.offer.mode == Mode::Ctr {
            // SAFETY: the caller's promise.
            return unsafe { self.update_stream(call) };
        }
        if !self.tls.on() {
            // SAFETY: the caller's promise.
            return unsafe { self.update_blocks(call) };
        }
        if call.from.is_null() || call.from != call.to || call.room < call.len || !self.padding {
            return Err(Reason::CipherOperationFailed);
        }
        // A record that is encrypted grows by its padding, a block at most.
        let size = if self.encrypt {
            call.room.min(call.len + BLOCK)
        } else {
            call.len
        };
        // SAFETY: the caller's promise; they are the same place.
        let place = unsafe { core::slice::from_raw_parts_mut(call.to, size) };
        let len = if self.encrypt {
            self.tls.pad(place, call.len)?
        } else {
            size
        };
        let record = &mut place[..len];
        self.blocks((&mut *record).into())?;
        if self.encrypt {
            return Ok(len);
        }
        self.tls.open(record)
    }

    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn update_blocks(&mut self, mut call: Call) -> Result<usize, Reason> {
        let room = call.room;
        // A last block that may be padded is kept.
        let keep = !self.encrypt && self.padding;
        if self.used > 0 {
            let more = call.len.min(BLOCK - self.used);
            // SAFETY: readable for `call.len` bytes.
            unsafe { self.fill(call.from, more) };
            call.from = call.from.wrapping_add(more);
            call.len -= more;
            if self.used < BLOCK || (keep && call.len == 0) {
                return Ok(0);
            }
            if call.room < BLOCK {
                return Err(Reason::OutputBufferTooSmall);
            }
            self.buffered_block()?;
            // SAFETY: there is room.
            unsafe {
                call.to
                    .copy_from_nonoverlapping(self.buffer.as_ptr(), BLOCK)
            };
            call.to = call.to.wrapping_add(BLOCK);
            call.room -= BLOCK;
            self.used = 0;
        }
        let mut whole = call.len / BLOCK * BLOCK;
        if keep && whole == call.len && whole > 0 {
            whole -= BLOCK;
        }
        // SAFETY: the caller's promise.
        let data = unsafe { call.take(whole)? };
        self.blocks(data)?;
        // SAFETY: the remaining bytes of the call are readable, at most a block.
        unsafe { self.fill(call.from, call.len) };
        Ok(room - call.room)
    }

    /// Appends to the buffer.
    ///
    /// # Safety
    ///
    /// `from` is readable for `len` bytes.
    unsafe fn fill(&mut self, from: *const u8, len: usize) {
        let place = &mut self.buffer[self.used..self.used + len];
        if len > 0 {
            // SAFETY: the caller's promise; the place has as many bytes.
            unsafe { place.as_mut_ptr().copy_from_nonoverlapping(from, len) };
        }
        self.used += len;
    }

    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn update_stream(&mut self, mut call: Call) -> Result<usize, Reason> {
        let len = call.len;
        if call.room < len {
            return Err(Reason::OutputBufferTooSmall);
        }
        let begun = if self.used == 0 {
            0
        } else {
            call.len.min(BLOCK - self.used)
        };
        let stream = &self.buffer[self.used..self.used + begun];
        // SAFETY: the caller's promise.
        unsafe { add_stream(&mut call, stream) };
        self.used = (self.used + begun) % BLOCK;

        // SAFETY: the caller's promise.
        let whole = unsafe { call.take(call.len / BLOCK * BLOCK)? };
        self.blocks(whole)?;

        if call.len > 0 {
            self.buffer = [0; BLOCK];
            self.buffered_block()?;
            self.used = call.len;
            // SAFETY: the caller's promise.
            unsafe { add_stream(&mut call, &self.buffer[..self.used]) };
        }
        Ok(len)
    }
}

/// The next bytes of a call, and the keystream.
///
/// # Safety
///
/// As [`Call`] says, and the call has as many bytes left as `stream`.
unsafe fn add_stream(call: &mut Call, stream: &[u8]) {
    for (i, stream) in stream.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { call.to.add(i).write(call.from.add(i).read() ^ stream) };
    }
    call.from = call.from.wrapping_add(stream.len());
    call.to = call.to.wrapping_add(stream.len());
    call.len -= stream.len();
    call.room -= stream.len();
}

impl Cipher for BlockCipher {
    const GETTABLE: &'static [Param] = &[
        Param::size(c"keylen"),
        Param::size(c"ivlen"),
        Param::uint(c"padding"),
        Param::uint(c"num"),
        Param::octet_string(c"iv"),
        Param::octet_string(c"updated-iv"),
        Param::octet_place(c"tls-mac"),
        Param::END,
    ];
    const SETTABLE: &'static [Param] = &[
        Param::uint(c"padding"),
        Param::uint(c"num"),
        Param::uint(c"use-bits"),
        Param::uint(c"tls-version"),
        Param::size(c"tls-mac-size"),
        Param::END,
    ];

    fn new(offer: &'static Offer) -> Self {
        Self {
            offer,
            key: None,
            encrypt: false,
            iv_set: false,
            original_iv: [0; BLOCK],
            iv: [0; BLOCK],
            padding: true,
            buffer: [0; BLOCK],
            used: 0,
            tls: TlsRecords::default(),
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        self.used = 0;
        match iv {
            Some(iv) if self.offer.mode != Mode::Ecb => {
                self.original_iv = iv.try_into().map_err(|_| Reason::InvalidIvLength)?;
                self.iv = self.original_iv;
                self.iv_set = true;
            }
            // In CTR, the count goes on.
            None if self.iv_set && self.offer.mode == Mode::Cbc => self.iv = self.original_iv,
            _ => {}
        }
        if let Some(key) = key {
            if key.len() != self.offer.key_len {
                return Err(Reason::InvalidKeyLength);
            }
            let set = match &mut self.key {
                Some(place) => place.set(key),
                none => Key::new(key).map(|key| *none = Some(key)),
            };
            set.map_err(|_| Reason::InvalidKeyLength)?;
        }
        Ok(())
    }

    // Always inlined: see `blocks`.
    #[inline(always)]
    unsafe fn update(&mut self, mut call: Call) -> Result<usize, Reason> {
        let whole = self.used == 0 && call.len.is_multiple_of(BLOCK);
        let keep = !self.encrypt && self.padding && self.offer.mode != Mode::Ctr;
        if whole && !keep && !self.tls.on() {
            let len = call.len;
            // SAFETY: the caller's promise.
            let data = unsafe { call.take(len)? };
            self.blocks(data)?;
            return Ok(len);
        }
        // SAFETY: the caller's promise.
        unsafe { self.update_any(call) }
    }

    unsafe fn update_all(
        pipes: &mut [Self],
        calls: &[Call],
        written: &mut [usize],
    ) -> Result<(), Reason> {
        let together = pipes.iter().all(|pipe| {
            pipe.offer.mode == Mode::Cbc && pipe.encrypt && pipe.used == 0 && !pipe.tls.on()
        });
        if calls.iter().any(|call| call.to.is_null()) {
            return Err(Reason::CipherOperationFailed);
        }
        if !together {
            // SAFETY: the caller's promise.
            return unsafe { update_each(pipes, calls, written) };
        }
        let mut calls = calls.to_vec();
        let mut jobs = Vec::with_capacity(pipes.len());
        for ((pipe, call), written) in pipes.iter_mut().zip(&mut calls).zip(written) {
            *written = call.len / BLOCK * BLOCK;
            jobs.push(CbcJob {
                key: pipe.key.as_ref().ok_or(Reason::NoKeySet)?,
                iv: &mut pipe.iv,
                // SAFETY: the caller's promise.
                data: unsafe { call.take(*written)? }.into_place(),
            });
        }
        aes::cbc_encrypt_many(&mut jobs).map_err(|_| Reason::CipherOperationFailed)?;
        for (pipe, call) in pipes.iter_mut().zip(&calls) {
            // SAFETY: the remaining bytes of the call are readable, less than a block.
            unsafe { pipe.fill(call.from, call.len) };
        }
        Ok(())
    }

    unsafe fn finish(&mut self, to: *mut u8, room: usize) -> Result<usize, Reason> {
        self.key()?;
        if self.offer.mode == Mode::Ctr {
            return Ok(0);
        }
        if self.tls.on() {
            return Err(Reason::CipherOperationFailed);
        }
        let len = if self.encrypt {
            if self.padding {
                let missing = BLOCK - self.used;
                self.buffer[self.used..].fill(missing as u8);
            } else if self.used == 0 {
                return Ok(0);
            } else if self.used < BLOCK {
                return Err(Reason::WrongFinalBlockLength);
            }
            if room < BLOCK {
                return Err(Reason::OutputBufferTooSmall);
            }
            self.buffered_block()?;
            BLOCK
        } else if self.used == BLOCK {
            self.buffered_block()?;
            if self.padding {
                unpadded(&self.buffer)?
            } else {
                BLOCK
            }
        } else if self.used == 0 && !self.padding {
            return Ok(0);
        } else {
            return Err(Reason::WrongFinalBlockLength);
        };
        if room < len {
            return Err(Reason::OutputBufferTooSmall);
        }
        // SAFETY: the caller's promise, and there is room.
        unsafe { to.copy_from_nonoverlapping(self.buffer.as_ptr(), len) };
        self.used = 0;
        Ok(len)
    }

    unsafe fn raw(&mut self, mut call: Call) -> Result<usize, Reason> {
        self.key()?;
        if self.offer.mode == Mode::Ctr {
            // SAFETY: the caller's promise.
            return unsafe { self.update_stream(call) };
        }
        let len = call.len;
        // SAFETY: the caller's promise.
        let data = unsafe { call.take(len)? };
        self.blocks(data)?;
        Ok(len)
    }

    fn get(&mut self, key: &[u8], param: &mut Param) -> Result<(), Reason> {
        let iv_len = self.offer.iv_len();
        let set = match key {
            b"keylen" => param.set_number(self.offer.key_len as u64),
            b"ivlen" => param.set_number(iv_len as u64),
            b"padding" => param.set_number(u64::from(self.padding)),
            b"num" if self.offer.mode == Mode::Ctr => param.set_number(self.used as u64),
            b"num" => param.set_number(0),
            b"iv" => param.set_octets(&self.original_iv[..iv_len]),
            b"updated-iv" => param.set_octets(&self.iv[..iv_len]),
            b"tls-mac" => param.set_octets(self.tls.mac()),
            _ => true,
        };
        set.then_some(()).ok_or(Reason::FailedToSetParameter)
    }

    fn set(&mut self, key: &[u8], param: &Param) -> Result<(), Reason> {
        let number = || param.number().ok_or(Reason::FailedToGetParameter);
        match key {
            b"padding" => self.padding = number()? != 0,
            b"num" if self.offer.mode == Mode::Ctr => {
                let num = number()? as usize;
                if num >= BLOCK {
                    return Err(Reason::FailedToGetParameter);
                }
                self.used = num;
            }
            // For CFB with one bit at a time, without effect elsewhere.
            b"use-bits" => _ = number()?,
            b"tls-version" => self.tls.set_version(number()?),
            b"tls-mac-size" => self.tls.set_mac_len(number()?)?,
            b"keylen" if number()? != self.offer.key_len as u64 => {
                return Err(Reason::InvalidKeyLength);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The length without the padding of PKCS #7. As with any cipher without a MAC, the answer tells of
/// the plaintext.
fn unpadded(block: &[u8; BLOCK]) -> Result<usize, Reason> {
    let padding = usize::from(block[BLOCK - 1]);
    let len = BLOCK.checked_sub(padding).filter(|_| padding > 0);
    let len = len.ok_or(Reason::BadDecrypt)?;
    let right = block[len..]
        .iter()
        .all(|&byte| usize::from(byte) == padding);
    right.then_some(len).ok_or(Reason::BadDecrypt)
}
