//! GCM.

use tabane_lanes::aes::{BLOCK, Gcm, GcmKey};
use zeroize::Zeroize;

use super::{Call, Cipher, Offer};
use crate::abi::Param;
use crate::error::Reason;
use crate::guard::bytes;

/// The longest initialization vector.
const MAX_IV: usize = 128;
/// Of a record of TLS: the part of the initialization vector that is sent along, the tag, and the additional data.
const EXPLICIT_IV: usize = 8;
const TAG: usize = 16;
const TLS_AAD: usize = 13;
/// The least part of the initialization vector that is not sent along.
const FIXED_IV: usize = 4;

/// What became of the initialization vector.
#[derive(Clone)]
enum Iv {
    /// There is none.
    Unset,
    /// It waits for the message to begin.
    Given,
    /// The message has begun.
    Used(Gcm),
    /// The message has ended: the vector must not be used again.
    Spent,
}

/// A message in GCM. What is secret erases itself.
#[derive(Clone)]
pub(super) struct GcmCipher {
    offer: &'static Offer,
    key: Option<GcmKey>,
    encrypt: bool,
    iv: [u8; MAX_IV],
    iv_len: usize,
    state: Iv,
    /// Whether the end of the vector is a counter of ours.
    counting_iv: bool,
    tag: [u8; TAG],
    tag_len: Option<usize>,
    /// The next update is a record of TLS with these additional data.
    tls_aad: Option<[u8; TLS_AAD]>,
    tls_records: u64,
}

impl GcmCipher {
    /// Begins the message if it has not begun.
    fn begin(&mut self) -> Result<(&GcmKey, &mut Gcm), Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        let key = self.key.as_ref().ok_or(FAILED)?;
        match self.state {
            Iv::Spent => return Err(FAILED),
            Iv::Unset if !self.encrypt || self.iv_len < 12 => return Err(FAILED),
            Iv::Unset => getrandom::fill(&mut self.iv[..self.iv_len]).map_err(|_| FAILED)?,
            Iv::Given | Iv::Used(_) => {}
        }
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
            self.tag = tag;
            self.tag_len = Some(TAG);
        } else {
            let len = expected.ok_or(Reason::TagNotSet)?;
            if !equal(&tag[..len], &self.tag[..len]) {
                return Err(Reason::CipherOperationFailed);
            }
        }
        self.state = Iv::Spent;
        Ok(())
    }

    /// Begins a message under the vector, writes its last bytes to `to`, and counts on for the next one.
    fn next_iv(&mut self, to: &mut [u8]) -> Result<(), Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
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
        const FAILED: Reason = Reason::CipherOperationFailed;
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

    /// A whole record of TLS 1.2, in place: explicit part of the vector, data, tag (RFC 5288). Returns the length of the
    /// record, or of the data when decrypting.
    fn tls_record(&mut self, aad: [u8; TLS_AAD], record: &mut [u8]) -> Result<usize, Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        let len = record.len();
        let (explicit_iv, rest) = record
            .split_first_chunk_mut::<EXPLICIT_IV>()
            .ok_or(FAILED)?;
        let (data, tag) = rest.split_last_chunk_mut::<TAG>().ok_or(FAILED)?;
        let failed = |_| FAILED;
        if self.encrypt {
            let records = self.tls_records.checked_add(1);
            self.tls_records = records.ok_or(Reason::TooManyRecords)?;
            self.next_iv(explicit_iv)?;
            let (key, message) = self.begin()?;
            message.aad(key, &aad).map_err(failed)?;
            message.encrypt(key, &mut *data).map_err(failed)?;
            *tag = message.tag(key);
            Ok(len)
        } else {
            self.received_iv(explicit_iv)?;
            let (key, message) = self.begin()?;
            message.aad(key, &aad).map_err(failed)?;
            message.decrypt(key, &mut *data).map_err(failed)?;
            if equal(&message.tag(key), tag) {
                Ok(data.len())
            } else {
                data.zeroize();
                Err(FAILED)
            }
        }
    }

    /// Keeps the additional data of the next record, in which the length is to be that of the data alone.
    fn set_tls_aad(&mut self, aad: &[u8]) -> Result<(), Reason> {
        const FAILED: Reason = Reason::InvalidAad;
        let mut aad: [u8; TLS_AAD] = aad.try_into().map_err(|_| FAILED)?;
        let len = aad.last_chunk_mut().ok_or(FAILED)?;
        let around = if self.encrypt {
            EXPLICIT_IV
        } else {
            EXPLICIT_IV + TAG
        };
        let data = u16::from_be_bytes(*len).checked_sub(around as u16);
        *len = data.ok_or(FAILED)?.to_be_bytes();
        self.tls_aad = Some(aad);
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
            if fixed.len() < FIXED_IV || counted < EXPLICIT_IV {
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
        Param::END,
    ];
    const SETTABLE: &'static [Param] = &[
        Param::size(c"ivlen"),
        Param::octet_string(c"tag"),
        Param::octet_string(c"tlsaad"),
        Param::octet_string(c"tlsivfixed"),
        Param::octet_string(c"tlsivinv"),
        Param::END,
    ];

    fn new(offer: &'static Offer) -> Self {
        Self {
            offer,
            key: None,
            encrypt: false,
            iv: [0; MAX_IV],
            iv_len: offer.iv_len(),
            state: Iv::Unset,
            counting_iv: false,
            tag: [0; TAG],
            tag_len: None,
            tls_aad: None,
            tls_records: 0,
        }
    }

    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason> {
        self.encrypt = encrypt;
        if let Some(iv) = iv {
            if iv.is_empty() || iv.len() > MAX_IV {
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
                // What has begun belongs to another key.
                self.state = Iv::Spent;
            }
        }
        Ok(())
    }

    unsafe fn update(&mut self, mut call: Call) -> Result<usize, Reason> {
        const FAILED: Reason = Reason::CipherOperationFailed;
        let len = call.len;
        if len == 0 {
            return Ok(0);
        }
        if call.room < len {
            return Err(Reason::OutputBufferTooSmall);
        }
        if let Some(aad) = self.tls_aad.take() {
            if call.from != call.to {
                return Err(FAILED);
            }
            // SAFETY: the caller's promise; they are the same place.
            let record = unsafe { core::slice::from_raw_parts_mut(call.to, len) };
            let done = self.tls_record(aad, record);
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

    unsafe fn finish(&mut self, _to: *mut u8, _room: usize) -> Result<usize, Reason> {
        if self.tls_aad.take().is_some() {
            self.state = Iv::Spent;
            return Err(Reason::Unsaid);
        }
        // A wrong tag above all, which is no fault: whoever asks for it looks at what the call returns.
        self.end().map_err(|_| Reason::Unsaid)?;
        Ok(0)
    }

    unsafe fn raw(&mut self, call: Call) -> Result<usize, Reason> {
        // SAFETY: the caller's promise.
        unsafe {
            if call.from.is_null() {
                self.finish(call.to, call.room)
            } else {
                self.update(call)
            }
        }
    }

    fn get(&mut self, key: &[u8], param: &mut Param) -> Result<(), Reason> {
        let set = match key {
            b"keylen" => param.set_number(self.offer.key_len as u64),
            b"ivlen" => param.set_number(self.iv_len as u64),
            b"taglen" => param.set_number(self.tag_len.unwrap_or(TAG) as u64),
            b"iv" | b"updated-iv" => {
                if matches!(self.state, Iv::Unset) {
                    return Err(Reason::FailedToGetParameter);
                }
                param.set_octets(&self.iv[..self.iv_len])
            }
            b"tag" => {
                if !self.encrypt || self.tag_len.is_none() {
                    return Err(Reason::TagNotSet);
                }
                let len = if param.data.is_null() {
                    TAG
                } else {
                    param.data_size
                };
                if len == 0 || len > TAG {
                    return Err(Reason::InvalidTag);
                }
                param.set_octets(&self.tag[..len])
            }
            b"tlsaadpad" => param.set_number(TAG as u64),
            b"tlsivgen" => {
                let mut iv = [0; MAX_IV];
                let asked = match param.data_size {
                    len if param.data.is_null() || len > MAX_IV => {
                        return Err(Reason::FailedToGetParameter);
                    }
                    0 => self.iv_len,
                    len => len.min(self.iv_len),
                };
                self.next_iv(&mut iv[..asked])?;
                param.set_octets(&iv[..asked])
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
                    .filter(|tag| tag.len() <= TAG)
                    .ok_or(FAILED)?;
                if self.encrypt {
                    return Err(Reason::TagNotNeeded);
                }
                if tag.is_empty() {
                    return Err(Reason::InvalidTag);
                }
                self.tag[..tag.len()].copy_from_slice(tag);
                self.tag_len = Some(tag.len());
            }
            b"ivlen" => {
                let len = param.number().ok_or(FAILED)? as usize;
                if len == 0 || len > MAX_IV {
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
