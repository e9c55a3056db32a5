//! GCM.

use tabane_lanes::aes::{BLOCK, Gcm, GcmKey};
use zeroize::Zeroize;

use super::{Call, Cipher, Offer};
use crate::abi::{Param, param_type};
use crate::error::Reason;
use crate::guard::bytes;
use crate::settings::openssl_4;

/// Bytes of an initialization vector at most.
const IV_BYTES_MAX: usize = 128;
/// Bytes of a whole tag.
const TAG_BYTES: usize = 16;
/// Of a record of TLS: bytes of the part of the initialization vector that is sent along, and of
/// the additional data.
const EXPLICIT_IV_BYTES: usize = 8;
const TLS_AAD_BYTES: usize = 13;
/// Bytes of the part of the initialization vector that is not sent along, at least.
const FIXED_IV_BYTES_MIN: usize = 4;

/// State of the initialization vector.
#[derive(Clone)]
enum Iv {
    /// There is none.
    Unset,
    /// Given, and waiting for the message to begin.
    Given,
    /// The message has begun.
    Used(Gcm),
    /// The message has ended: the vector must not be used again.
    Spent,
}

/// A message in GCM. Secrets are erased when dropped.
#[derive(Clone)]
pub(super) struct GcmCipher {
    offer: &'static Offer,
    key: Option<GcmKey>,
    encrypt: bool,
    iv: [u8; IV_BYTES_MAX],
    iv_len: usize,
    state: Iv,
    /// Whether the end of the vector is a counter of ours.
    counting_iv: bool,
    /// The tag, or the additional data of the next record of TLS, as in the default provider.
    buffer: [u8; TAG_BYTES],
    /// Bytes of the tag; none if there is none.
    tag_len: Option<usize>,
    /// Whether the next update is a record of TLS.
    tls_record_next: bool,
    /// Bytes that the tag adds to a record of TLS, 0 before the first record.
    tls_padding: usize,
    tls_records: u64,
}

impl GcmCipher {
    /// Takes a random vector, where none was given.
    fn random_iv(&mut self) -> Result<(), Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        if !self.encrypt || self.iv_len < 12 {
            return Err(FAILED);
        }
        getrandom::fill(&mut self.iv[..self.iv_len]).map_err(|_| FAILED)?;
        self.state = Iv::Given;
        Ok(())
    }

    /// Begins the message if it has not begun.
    fn begin(&mut self) -> Result<(&GcmKey, &mut Gcm), Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        if self.key.is_none() {
            return Err(FAILED);
        }
        match self.state {
            Iv::Spent => return Err(FAILED),
            Iv::Unset => self.random_iv()?,
            Iv::Given | Iv::Used(_) => {}
        }
        let key = self.key.as_ref().ok_or(FAILED)?;
        if !matches!(self.state, Iv::Used(_)) {
            let message = Gcm::new(key, &self.iv[..self.iv_len]).map_err(|_| FAILED)?;
            self.state = Iv::Used(message);
        }
        match &mut self.state {
            Iv::Used(message) => Ok((key, message)),
            _ => Err(FAILED),
        }
    }

    /// The tag is right, or (when encrypting) is made.
    fn end(&mut self) -> Result<(), Reason> {
        let (encrypt, expected) = (self.encrypt, self.tag_len);
        let (key, message) = self.begin()?;
        let tag = message.tag(key);
        if encrypt {
            self.buffer = tag;
            self.tag_len = Some(TAG_BYTES);
        } else {
            let len = expected.ok_or(Reason::TagNotSet)?;
            if !equal(&tag[..len], &self.buffer[..len]) {
                return Err(Reason::CipherOperationFailed);
            }
        }
        self.state = Iv::Spent;
        Ok(())
    }

    /// Begins a message under the vector, writes its last bytes to `to`, and counts on for the next
    /// one.
    fn next_iv(&mut self, to: &mut [u8]) -> Result<(), Reason> {
        const FAILED: Reason = Reason::Unsaid;
        let key = self.key.as_ref().ok_or(FAILED)?;
        if !self.counting_iv {
            return Err(FAILED);
        }
        let iv = &mut self.iv[..self.iv_len];
        self.state = Iv::Used(Gcm::new(key, iv).map_err(|_| FAILED)?);
        let len = to.len().min(iv.len());
        to[..len].copy_from_slice(&iv[iv.len() - len..]);
        let counter = iv.last_chunk_mut().ok_or(FAILED)?;
        *counter = u64::from_be_bytes(*counter).wrapping_add(1).to_be_bytes();
        Ok(())
    }

    /// Begins a message under a vector whose end the other side has sent.
    fn received_iv(&mut self, end: &[u8]) -> Result<(), Reason> {
        const FAILED: Reason = Reason::Unsaid;
        let key = self.key.as_ref().ok_or(FAILED)?;
        if !self.counting_iv || self.encrypt || end.len() > self.iv_len {
            return Err(FAILED);
        }
        let iv = &mut self.iv[..self.iv_len];
        let start = iv.len() - end.len();
        iv[start..].copy_from_slice(end);
        self.state = Iv::Used(Gcm::new(key, iv).map_err(|_| FAILED)?);
        Ok(())
    }

    /// A whole record of TLS 1.2, in place: explicit part of the vector, data, tag (RFC 5288).
    /// Returns the length of the record, or of the data when decrypting.
    fn tls_record(&mut self, record: &mut [u8]) -> Result<usize, Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        let aad: [u8; TLS_AAD_BYTES] = *self.buffer.first_chunk().ok_or(FAILED)?;
        let len = record.len();
        let (explicit_iv, rest) = record
            .split_first_chunk_mut::<EXPLICIT_IV_BYTES>()
            .ok_or(FAILED)?;
        let (data, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(FAILED)?;
        let failed = |_| FAILED;
        if self.encrypt {
            let records = self.tls_records.checked_add(1);
            self.tls_records = records.ok_or(Reason::TooManyRecords)?;
            self.next_iv(explicit_iv).map_err(|_| FAILED)?;
            let (key, message) = self.begin()?;
            message.aad(key, &aad).map_err(failed)?;
            message.encrypt(key, &mut *data).map_err(failed)?;
            *tag = message.tag(key);
            self.tag_len = Some(TAG_BYTES);
            Ok(len)
        } else {
            self.received_iv(explicit_iv).map_err(|_| FAILED)?;
            let (key, message) = self.begin()?;
            message.aad(key, &aad).map_err(failed)?;
            message.decrypt(key, &mut *data).map_err(failed)?;
            let expected = message.tag(key);
            self.tag_len = Some(TAG_BYTES);
            if equal(&expected, tag) {
                Ok(data.len())
            } else {
                data.zeroize();
                Err(FAILED)
            }
        }
    }

    /// Data, additional data, or a record of TLS. Returns how many bytes were written.
    ///
    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn process(&mut self, mut call: Call) -> Result<usize, Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        let len = call.len;
        if call.room < len {
            return Err(Reason::OutputBufferTooSmall);
        }
        if core::mem::take(&mut self.tls_record_next) {
            if call.from != call.to {
                self.state = Iv::Spent;
                return Err(FAILED);
            }
            // SAFETY: the caller's promise; they are the same place.
            let record = unsafe { core::slice::from_raw_parts_mut(call.to, len) };
            let done = self.tls_record(record);
            self.state = Iv::Spent;
            return done;
        }
        let encrypt = self.encrypt;
        let (key, message) = self.begin()?;
        let done = if call.to.is_null() {
            // SAFETY: the caller's promise.
            message.aad(key, unsafe { bytes(call.from, len) })
        } else {
            // SAFETY: the caller's promise.
            let data = unsafe { call.take(len)? };
            if encrypt {
                message.encrypt(key, data)
            } else {
                message.decrypt(key, data)
            }
        };
        done.map_err(|_| FAILED)?;
        Ok(len)
    }

    /// Keeps the additional data of the next record, in which the length is to be that of the data
    /// alone.
    fn set_tls_aad(&mut self, aad: &[u8]) -> Result<(), Reason> {
        const FAILED: Reason = Reason::InvalidAad;
        let aad: &[u8; TLS_AAD_BYTES] = aad.try_into().map_err(|_| FAILED)?;
        let place: &mut [u8; TLS_AAD_BYTES] = self.buffer.first_chunk_mut().ok_or(FAILED)?;
        *place = *aad;
        // Also if the length is wrong, as in the default provider: the next update is a record then
        // too.
        self.tls_record_next = true;
        let len = place.last_chunk_mut().ok_or(FAILED)?;
        let around = if self.encrypt {
            EXPLICIT_IV_BYTES
        } else {
            EXPLICIT_IV_BYTES + TAG_BYTES
        };
        let data = u16::from_be_bytes(*len).checked_sub(around as u16);
        *len = data.ok_or(FAILED)?.to_be_bytes();
        self.tls_padding = TAG_BYTES;
        Ok(())
    }

    /// The beginning of the vector, which stays the same for all records; the rest is counted.
    fn set_fixed_iv(&mut self, fixed: &Param) -> Result<(), Reason> {
        const FAILED: Reason = Reason::FailedToGetParameter;
        if fixed.data_size == usize::MAX {
            // By this length, all of it is given.
            if fixed.data.is_null() {
                return Err(FAILED);
            }
            // SAFETY: the caller has to give a vector of the length that was set.
            let iv = unsafe { bytes(fixed.data.cast(), self.iv_len) };
            self.iv[..self.iv_len].copy_from_slice(iv);
        } else {
            let fixed = fixed.octets().ok_or(FAILED)?;
            let counted = self.iv_len.checked_sub(fixed.len()).ok_or(FAILED)?;
            if fixed.len() < FIXED_IV_BYTES_MIN || counted < EXPLICIT_IV_BYTES {
                return Err(FAILED);
            }
            let (start, rest) = self.iv[..self.iv_len].split_at_mut(fixed.len());
            start.copy_from_slice(fixed);
            if self.encrypt {
                getrandom::fill(rest).map_err(|_| FAILED)?;
            }
        }
        self.counting_iv = true;
        self.state = Iv::Given;
        Ok(())
    }
}

impl Cipher for GcmCipher {
    const GETTABLE: &'static [Param] = &[
        Param::size(c"keylen"),
        Param::size(c"ivlen"),
        Param::size(c"taglen"),
        Param::octet_string(c"iv"),
        Param::octet_string(c"updated-iv"),
        Param::octet_string(c"tag"),
        Param::size(c"tlsaadpad"),
        Param::octet_string(c"tlsivgen"),
        Param::octet_place(c"pipeline-tag"),
        Param::END,
    ];
    const SETTABLE: &'static [Param] = &[
        Param::size(c"ivlen"),
        Param::octet_string(c"tag"),
        Param::octet_string(c"tlsaad"),
        Param::octet_string(c"tlsivfixed"),
        Param::octet_string(c"tlsivinv"),
        Param::octet_place(c"pipeline-tag"),
        Param::END,
    ];

    fn new(offer: &'static Offer) -> Self {
        Self {
            offer,
            key: None,
            encrypt: false,
            iv: [0; IV_BYTES_MAX],
            iv_len: offer.iv_len(),
            state: Iv::Unset,
            counting_iv: false,
            buffer: [0; TAG_BYTES],
            tag_len: None,
            tls_record_next: false,
            tls_padding: 0,
            tls_records: 0,
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        if let Some(iv) = iv {
            if iv.is_empty() || iv.len() > IV_BYTES_MAX {
                return Err(Reason::InvalidIvLength);
            }
            self.iv_len = iv.len();
            self.iv[..iv.len()].copy_from_slice(iv);
            self.state = Iv::Given;
        }
        if let Some(key) = key {
            if key.len() != self.offer.key_len {
                return Err(Reason::InvalidKeyLength);
            }
            let set = match &mut self.key {
                Some(place) => place.set(key),
                none => GcmKey::new(key).map(|key| *none = Some(key)),
            };
            set.map_err(|_| Reason::InvalidKeyLength)?;
            self.tls_records = 0;
            if matches!(self.state, Iv::Used(_)) {
                // The message begun belongs to another key.
                self.state = Iv::Spent;
            }
        }
        Ok(())
    }

    unsafe fn update(&mut self, call: Call) -> Result<usize, Reason> {
        if call.len == 0 {
            return Ok(0);
        }
        // SAFETY: the caller's promise.
        unsafe { self.process(call) }
    }

    unsafe fn finish(&mut self, _to: *mut u8, _room: usize) -> Result<usize, Reason> {
        if core::mem::take(&mut self.tls_record_next) {
            self.state = Iv::Spent;
            return Err(Reason::Unsaid);
        }
        // Mostly a wrong tag, which is no fault: callers look at the returned value.
        self.end().map_err(|reason| match reason {
            Reason::TagNotSet if openssl_4() => reason,
            _ => Reason::Unsaid,
        })?;
        Ok(0)
    }

    unsafe fn raw(&mut self, call: Call) -> Result<usize, Reason> {
        // SAFETY: the caller's promise.
        unsafe {
            if call.from.is_null() {
                return self.finish(call.to, call.room);
            }
            self.process(call).map_err(|reason| match reason {
                Reason::OutputBufferTooSmall => reason,
                _ => Reason::Unsaid,
            })
        }
    }

    fn get(&mut self, key: &[u8], param: &mut Param) -> Result<(), Reason> {
        let set = match key {
            b"keylen" => param.set_number(self.offer.key_len as u64),
            b"ivlen" => param.set_number(self.iv_len as u64),
            b"taglen" => param.set_number(self.tag_len.unwrap_or(TAG_BYTES) as u64),
            b"iv" | b"updated-iv" => {
                if matches!(self.state, Iv::Unset) {
                    // OpenSSL 4 takes the random vector now, OpenSSL 3 not before the message.
                    if !openssl_4() || self.tls_record_next {
                        return Err(Reason::Unsaid);
                    }
                    self.random_iv().map_err(|_| Reason::Unsaid)?;
                }
                if param.data_size < self.iv_len {
                    return Err(Reason::InvalidIvLength);
                }
                param.set_octets(&self.iv[..self.iv_len])
            }
            b"tag" => {
                let len = param.data_size;
                if !(1..=TAG_BYTES).contains(&len) || !self.encrypt || self.tag_len.is_none() {
                    return Err(Reason::InvalidTag);
                }
                param.set_octets(&self.buffer[..len])
            }
            b"tlsaadpad" => param.set_number(self.tls_padding as u64),
            b"tlsivgen" => {
                if param.data.is_null() || param.data_type != param_type::OCTET_STRING {
                    return Err(Reason::Unsaid);
                }
                let len = match param.data_size {
                    0 => self.iv_len,
                    len => len.min(self.iv_len),
                };
                // SAFETY: the caller of OpenSSL promises that `data` is writable for `data_size`
                // bytes, or with a size of 0 for the whole vector.
                let to = unsafe { core::slice::from_raw_parts_mut(param.data.cast(), len) };
                return self.next_iv(to);
            }
            _ => true,
        };
        set.then_some(()).ok_or(Reason::FailedToSetParameter)
    }

    fn set(&mut self, key: &[u8], param: &Param) -> Result<(), Reason> {
        const FAILED: Reason = Reason::FailedToGetParameter;
        match key {
            b"tag" => {
                let tag = param
                    .octets()
                    .filter(|tag| tag.len() <= TAG_BYTES)
                    .ok_or(FAILED)?;
                if self.encrypt || tag.is_empty() {
                    return Err(Reason::InvalidTag);
                }
                self.buffer[..tag.len()].copy_from_slice(tag);
                self.tag_len = Some(tag.len());
            }
            b"ivlen" => {
                let len = param.number().ok_or(FAILED)? as usize;
                if len == 0 || len > IV_BYTES_MAX {
                    return Err(Reason::InvalidIvLength);
                }
                if len != self.iv_len {
                    // The vector of the other length is none.
                    if !matches!(self.state, Iv::Unset) {
                        self.state = Iv::Spent;
                    }
                    self.iv_len = len;
                }
            }
            b"tlsaad" => self.set_tls_aad(param.octets().ok_or(FAILED)?)?,
            b"tlsivfixed" => self.set_fixed_iv(param)?,
            b"tlsivinv" => self.received_iv(param.octets().ok_or(FAILED)?)?,
            b"keylen" if param.number() != Some(self.offer.key_len as u64) => {
                return Err(Reason::InvalidKeyLength);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether two tags are equal, in a time that does not depend on where they differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    debug_assert!(a.len() == b.len() && a.len() <= BLOCK);
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    core::hint::black_box(difference) == 0
}
