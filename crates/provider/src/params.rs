//! Reading and writing parameters (`OSSL_PARAM(3)`).

use core::ffi::{CStr, c_char, c_uint, c_void};
use core::ptr;

use crate::abi::{Param, param_type};
use crate::guard::bytes;

impl Param {
    /// A table's end.
    pub(crate) const END: Self = Self::described(ptr::null(), 0, 0);

    const fn described(key: *const c_char, data_type: c_uint, data_size: usize) -> Self {
        Self {
            key,
            data_type,
            data: ptr::null_mut(),
            data_size,
            return_size: usize::MAX,
        }
    }

    /// Says that there is an unsigned number of this name, as wide as a `size_t`.
    pub(crate) const fn size(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::UNSIGNED_INTEGER, 8)
    }

    /// Says that there is an `unsigned int` of this name.
    pub(crate) const fn uint(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::UNSIGNED_INTEGER, 4)
    }

    /// Says that there is an `int` of this name.
    pub(crate) const fn int(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::INTEGER, 4)
    }

    /// Says that there are bytes of this name.
    pub(crate) const fn octet_string(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::OCTET_STRING, 0)
    }

    /// Says that the place of bytes can be had.
    pub(crate) const fn octet_place(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::OCTET_PTR, 0)
    }

    /// Says that there is a text of this name.
    pub(crate) const fn text(key: &'static CStr) -> Self {
        Self::described(key.as_ptr(), param_type::UTF8_PTR, 0)
    }

    /// Asks for the place of a text of this name.
    pub(crate) fn text_asked_for(key: &'static CStr, place: &mut *const c_char) -> Self {
        Self {
            data: ptr::from_mut(place).cast(),
            ..Self::described(
                key.as_ptr(),
                param_type::UTF8_PTR,
                size_of::<*const c_char>(),
            )
        }
    }

    /// Answers with a number, in whatever width is asked for. False if it does not fit.
    pub(crate) fn set_number(&mut self, value: u64) -> bool {
        let spare_bits = match self.data_type {
            param_type::UNSIGNED_INTEGER => 0,
            param_type::INTEGER => 1,
            _ => return false,
        };
        if self.data.is_null() {
            self.return_size = size_of::<u64>();
            return true;
        }
        let needed = (u64::BITS - value.leading_zeros() + spare_bits)
            .div_ceil(8)
            .max(1) as usize;
        if self.data_size < needed {
            self.return_size = size_of::<u64>();
            return false;
        }
        // SAFETY: the caller of OpenSSL promises that `data` is writable for `data_size` bytes.
        let place =
            unsafe { core::slice::from_raw_parts_mut(self.data.cast::<u8>(), self.data_size) };
        for (i, byte) in place.iter_mut().enumerate() {
            *byte = if i < 8 { (value >> (8 * i)) as u8 } else { 0 };
        }
        if cfg!(target_endian = "big") {
            place.reverse();
        }
        self.return_size = self.data_size;
        true
    }

    /// The number that was given, if it is one, not negative, and of 64 bits at most.
    pub(crate) fn number(&self) -> Option<u64> {
        let integer = matches!(
            self.data_type,
            param_type::INTEGER | param_type::UNSIGNED_INTEGER
        );
        if !integer || self.data.is_null() || self.data_size == 0 {
            return None;
        }
        // SAFETY: the caller of OpenSSL promises that a number's `data` is readable for `data_size`
        // bytes.
        let place = unsafe { bytes(self.data.cast(), self.data_size) };
        let digit = |i| {
            if cfg!(target_endian = "big") {
                place[place.len() - 1 - i]
            } else {
                place[i]
            }
        };
        let negative = self.data_type == param_type::INTEGER && digit(place.len() - 1) > 0x7f;
        if negative || (8..place.len()).any(|i| digit(i) != 0) {
            return None;
        }
        Some((0..place.len().min(8)).fold(0, |sum, i| sum | u64::from(digit(i)) << (8 * i)))
    }

    /// The bytes that were given.
    pub(crate) fn octets(&self) -> Option<&[u8]> {
        let given = self.data_type == param_type::OCTET_STRING && !self.data.is_null();
        // SAFETY: the caller of OpenSSL promises that `data` is readable for `data_size` bytes.
        given.then(|| unsafe { bytes(self.data.cast(), self.data_size) })
    }

    /// Answers with bytes: a copy, or their place if that is asked for.
    pub(crate) fn set_octets(&mut self, octets: &[u8]) -> bool {
        match self.data_type {
            param_type::OCTET_PTR => {
                self.return_size = octets.len();
                if !self.data.is_null() {
                    // SAFETY: the caller of OpenSSL promises that `data` is writable for a pointer.
                    unsafe { self.data.cast::<*const u8>().write(octets.as_ptr()) };
                }
                true
            }
            param_type::OCTET_STRING => {
                self.return_size = octets.len();
                if self.data.is_null() {
                    return true;
                }
                if self.data_size < octets.len() {
                    return false;
                }
                // SAFETY: the caller of OpenSSL promises that `data` is writable for `data_size`
                // bytes.
                unsafe {
                    let to = self.data.cast::<u8>();
                    to.copy_from_nonoverlapping(octets.as_ptr(), octets.len());
                }
                true
            }
            _ => false,
        }
    }

    /// Answers with a constant text.
    pub(crate) fn set_text(&mut self, text: &'static CStr) -> bool {
        if self.data_type != param_type::UTF8_PTR {
            return false;
        }
        self.return_size = text.count_bytes();
        if !self.data.is_null() {
            // SAFETY: the caller of OpenSSL promises that `data` is writable for a pointer.
            unsafe { self.data.cast::<*const c_char>().write(text.as_ptr()) };
        }
        true
    }
}

/// The parameters of a call.
///
/// # Safety
///
/// `params` is null, or the first of a table that ends with a null key and is readable and writable
/// during `'a`.
pub(crate) unsafe fn each<'a>(
    params: *mut Param,
) -> impl Iterator<Item = (&'a CStr, &'a mut Param)> {
    let mut next = params;
    core::iter::from_fn(move || {
        // SAFETY: the caller's promise: an element of the table, or null.
        let param = unsafe { next.as_mut() }?;
        if param.key.is_null() {
            return None;
        }
        // SAFETY: this is not the end of the table, and keys are constant strings.
        let key = unsafe {
            next = next.add(1);
            CStr::from_ptr(param.key)
        };
        Some((key, param))
    })
}

/// The address of a table, as functions return it.
pub(crate) fn table(params: &'static [Param]) -> *const c_void {
    params.as_ptr().cast()
}
