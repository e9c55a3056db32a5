//! The endpoint over libfabric: remote writes by network cards that can, and by libfabric's own
//! TCP.
//!
//! The ring is registered once; its address and key are told when the connection is made. A frame
//! is one remote write with the immediate as its completion data, credit a message without bytes.
//! The receiving side sees the immediate and not where the bytes went: it takes them to be where
//! the rule that both follow says. A peer that does not follow it writes only within the ring,
//! which is all that is registered, but also where a consumer is just reading. So a frame's bytes
//! must not be relied on before its checksum was verified, and memory safety must not rest on them
//! at all: frames are bytes.
//!
//! Only connected endpoints (`FI_EP_MSG`): they keep the order of writes, tell when the peer is
//! gone, and are what `verbs` and `tcp` give. What has only unconnected ones, as `efa` and `shm`,
//! would need both done by hand, and `efa` writes in any order.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, IoSlice};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::endpoint::{Endpoint, Immediate};
use crate::ring::Ring;

/// Parts of one write at most, as in the shim.
const PARTS_MAX: usize = 8;

/// Bytes of the token that a connecting peer shows, as in the shim.
const TOKEN_LEN: usize = 32;

#[repr(C)]
struct RawNetwork(c_void);
#[repr(C)]
struct RawListener(c_void);
#[repr(C)]
struct RawRequest(c_void);
#[repr(C)]
struct RawEndpoint(c_void);

type Step = *const c_char;

// The shim. Codes are 0 or negative; `IoSlice` is an iovec.
unsafe extern "C" {
    fn tabane_providers(names: *mut c_char, len: usize);
    fn tabane_strerror(code: c_int) -> *const c_char;
    fn tabane_network_open(
        provider: *const c_char,
        host: *const c_char,
        port: *const c_char,
        is_source: c_int,
        out: *mut *mut RawNetwork,
        step: *mut Step,
    ) -> c_int;
    fn tabane_network_free(network: *mut RawNetwork);
    fn tabane_listen(
        network: *mut RawNetwork,
        out: *mut *mut RawListener,
        port: *mut u16,
        step: *mut Step,
    ) -> c_int;
    fn tabane_listener_close(listener: *mut RawListener);
    fn tabane_listener_free(listener: *mut RawListener);
    fn tabane_next_request(
        listener: *mut RawListener,
        out: *mut *mut RawRequest,
        token: *mut u8,
        step: *mut Step,
    ) -> c_int;
    fn tabane_request_free(request: *mut RawRequest);
    fn tabane_accept(
        request: *mut RawRequest,
        ring: *mut u8,
        len: usize,
        timeout: c_int,
        out: *mut *mut RawEndpoint,
        step: *mut Step,
    ) -> c_int;
    fn tabane_connect(
        network: *mut RawNetwork,
        token: *const u8,
        timeout: c_int,
        out: *mut *mut RawEndpoint,
        step: *mut Step,
    ) -> c_int;
    fn tabane_endpoint_free(endpoint: *mut RawEndpoint);
    fn tabane_wait(endpoint: *mut RawEndpoint, timeout: c_int, immediate: *mut u32) -> c_int;
    fn tabane_write(
        endpoint: *mut RawEndpoint,
        offset: u64,
        parts: *mut IoSlice<'_>,
        count: usize,
        immediate: u32,
        timeout: c_int,
    ) -> c_int;
    fn tabane_close(endpoint: *mut RawEndpoint);
}

/// A provider of libfabric on one of this machine's networks.
struct Network(NonNull<RawNetwork>);

// SAFETY: the shim only reads it, and libfabric is asked for objects that threads may share
// (`FI_THREAD_SAFE`).
unsafe impl Send for Network {}
// SAFETY: shared references only lead to calls that `FI_THREAD_SAFE` lets threads make at once.
unsafe impl Sync for Network {}

impl Network {
    fn open(provider: &str, host: &str, port: u16, is_source: bool) -> io::Result<Self> {
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let [name, host_text, port_text] = [text(provider)?, text(host)?, text(&port.to_string())?];
        let made = made(|out, step| {
            let is_source = c_int::from(is_source);
            // SAFETY: the texts live until it returns.
            unsafe {
                tabane_network_open(
                    name.as_ptr(),
                    host_text.as_ptr(),
                    port_text.as_ptr(),
                    is_source,
                    out,
                    step,
                )
            }
        });
        made.map(Self).map_err(|failure| {
            let names = providers();
            if names.iter().any(|name| name == provider) {
                failure.explained(&format!(
                    "libfabric's \
            {provider} to {host}:{port}"
                ))
            } else {
                let names = names.join(", ");
                let text = format!(
                    "libfabric has no provider {provider} with connections and \
                remote writes here, only: {names}"
                );
                io::Error::new(io::ErrorKind::Unsupported, text)
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // SAFETY: what uses it holds an `Arc` of it.
        unsafe { tabane_network_free(self.0.as_ptr()) }
    }
}

/// The names of libfabric's providers with connections and remote writes on this machine.
pub fn providers() -> Vec<String> {
    let mut names = [0; 1024];
    // SAFETY: the shim writes no more than this, its last byte a zero.
    let names = unsafe {
        tabane_providers(names.as_mut_ptr(), names.len());
        CStr::from_ptr(names.as_ptr())
    };
    let names = names.to_string_lossy();
    let mut names: Vec<String> = names.split(", ").map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

/// Waits for peers that connect over libfabric.
pub struct FabricListener {
    listening: Arc<Listening>,
    port: u16,
    waits: Mutex<()>,
}

/// A listener, kept open until all requests to connect are answered.
struct Listening {
    raw: NonNull<RawListener>,
    network: Arc<Network>,
}

// SAFETY: libfabric's objects are made with `FI_THREAD_SAFE`, so another thread may close them.
unsafe impl Send for Listening {}
// SAFETY: a lock lets one thread at a time into `tabane_next_request`; the shim allows any number
// in
// its other functions.
unsafe impl Sync for Listening {}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: this is the last owner: the listener and its requests share it through an `Arc`.
        unsafe { tabane_listener_free(self.raw.as_ptr()) }
    }
}

impl FabricListener {
    /// Listens with this provider (`tcp`, `verbs`) at an address of this machine; port 0 is any.
    ///
    /// # Errors
    /// When libfabric has no such provider, or the provider cannot listen at that address.
    pub fn bind(provider: &str, host: &str, port: u16) -> io::Result<Self> {
        let network = Arc::new(Network::open(provider, host, port, true)?);
        let mut bound = 0;
        // SAFETY: the network is open.
        let made = made(|out, step| unsafe {
            tabane_listen(network.0.as_ptr(), out, &raw mut bound, step)
        });
        let explain = |failure: Failure| failure.explained(&format!("{provider} at {host}:{port}"));
        let raw = made.map_err(explain)?;
        Ok(Self {
            listening: Arc::new(Listening { raw, network }),
            port: bound,
            waits: Mutex::new(()),
        })
    }

    /// The port of the listener.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next peer that wants to connect.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] once the listener is closed; another kind when the peer is
    /// no client of this protocol, after which `next` may be called again.
    pub fn next(&self) -> io::Result<FabricRequest> {
        let _waits = self.waits.lock().expect("no panic under this lock");
        let mut token = [0; TOKEN_LEN];
        // SAFETY: the token has the room that the shim writes to.
        let made = made(|out, step| unsafe {
            tabane_next_request(self.listening.raw.as_ptr(), out, token.as_mut_ptr(), step)
        });
        Ok(FabricRequest {
            raw: made.map_err(|failure| failed(failure.code))?,
            token,
            listening: Arc::clone(&self.listening),
        })
    }

    /// Ends waiting for peers: [`FabricListener::next`] returns an error from now on.
    pub fn close(&self) {
        // SAFETY: the listener is open.
        unsafe { tabane_listener_close(self.listening.raw.as_ptr()) }
    }
}

/// A peer that asks to connect; dropping the request refuses it.
pub struct FabricRequest {
    raw: NonNull<RawRequest>,
    token: [u8; TOKEN_LEN],
    listening: Arc<Listening>,
}

// SAFETY: libfabric's objects are made with `FI_THREAD_SAFE`, and a request has one owner, which
// alone uses it.
unsafe impl Send for FabricRequest {}

impl FabricRequest {
    /// The token that the peer sent, by which it is accepted or refused.
    pub fn token(&self) -> &[u8; TOKEN_LEN] {
        &self.token
    }

    /// Accepts the peer, whose writes go into `ring`. The connection must be made within
    /// `patience`,
    /// or at any time without one.
    ///
    /// # Errors
    /// When the peer is gone; when the ring cannot be registered.
    pub fn accept(self, ring: Arc<Ring>, patience: Option<Duration>) -> io::Result<Fabric> {
        let (memory, len) = (ring.memory(), ring.capacity());
        // SAFETY: the ring lives as long as the endpoint, in which it is registered.
        let made = made(|out, step| unsafe {
            tabane_accept(self.raw.as_ptr(), memory, len, millis(patience), out, step)
        });
        let raw = made.map_err(|failure| failure.explained("a peer that connects"))?;
        let network = Arc::clone(&self.listening.network);
        Ok(Fabric::new(raw, Some(ring), network))
    }
}

impl Drop for FabricRequest {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner, and it is being dropped.
        unsafe { tabane_request_free(self.raw.as_ptr()) }
    }
}

/// A connection over libfabric.
pub struct Fabric {
    raw: NonNull<RawEndpoint>,
    incoming: Mutex<()>,
    outgoing: Mutex<()>,
    wait_limit: Option<Duration>,
    write_limit: Option<Duration>,
    // Dropped after `raw` is closed, whom it belongs to.
    ring: Option<Arc<Ring>>,
    _network: Arc<Network>,
}

// SAFETY: libfabric's objects are made with `FI_THREAD_SAFE`, so another thread may use them.
unsafe impl Send for Fabric {}
// SAFETY: the two locks let one thread at a time into `tabane_wait` and one into `tabane_write`;
// the
// shim allows any number in `tabane_close`.
unsafe impl Sync for Fabric {}

impl Fabric {
    fn new(raw: NonNull<RawEndpoint>, ring: Option<Arc<Ring>>, network: Arc<Network>) -> Self {
        Self {
            raw,
            incoming: Mutex::new(()),
            outgoing: Mutex::new(()),
            wait_limit: None,
            write_limit: None,
            ring,
            _network: network,
        }
    }

    /// Connects to the node that listens there with this provider, sends the token, and may then
    /// write into the node's ring.
    ///
    /// # Errors
    /// When libfabric has no such provider; when nothing listens at that address, or another
    /// program does; when the node refuses the token.
    pub fn connect(
        provider: &str,
        host: &str,
        port: u16,
        token: &[u8; TOKEN_LEN],
        patience: Option<Duration>,
    ) -> io::Result<Self> {
        let network = Arc::new(Network::open(provider, host, port, false)?);
        // SAFETY: the network is open.
        let made = made(|out, step| unsafe {
            let limit = millis(patience);
            tabane_connect(network.0.as_ptr(), token.as_ptr(), limit, out, step)
        });
        let explain = |failure: Failure| failure.explained(&format!("{provider} to {host}:{port}"));
        Ok(Self::new(made.map_err(explain)?, None, network))
    }

    /// Sets time limits for waiting for an immediate of the peer, and for a write; without them,
    /// waits have no limit.
    #[must_use]
    pub fn limits(mut self, wait: Option<Duration>, write: Option<Duration>) -> Self {
        (self.wait_limit, self.write_limit) = (wait, write);
        self
    }
}

impl Endpoint for Fabric {
    fn write(&self, offset: u64, parts: &[&[u8]], immediate: u32) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        assert!(parts.len() <= PARTS_MAX, "a write has few parts");
        let parts = parts.iter().filter(|part| !part.is_empty());
        let count = slices
            .iter_mut()
            .zip(parts)
            .map(|(slice, part)| *slice = IoSlice::new(part))
            .count();
        let _outgoing = self.outgoing.lock().expect("no panic under this lock");
        let limit = millis(self.write_limit);
        // SAFETY: `count` slices are set, and the shim does not read their memory after it returns.
        let code = unsafe {
            tabane_write(
                self.raw.as_ptr(),
                offset,
                slices.as_mut_ptr(),
                count,
                immediate,
                limit,
            )
        };
        checked(code)
    }

    fn wait(&self) -> io::Result<u32> {
        let _incoming = self.incoming.lock().expect("no panic under this lock");
        let mut immediate = 0;
        // SAFETY: the endpoint is open.
        checked(unsafe {
            tabane_wait(
                self.raw.as_ptr(),
                millis(self.wait_limit),
                &raw mut immediate,
            )
        })?;
        if let Immediate::Frame(len) = Immediate::parse(immediate) {
            let Some(ring) = &self.ring else {
                let text = "a peer writes to an end without a ring";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            ring.arrived(len as usize)?;
        }
        Ok(immediate)
    }

    fn close(&self) {
        // SAFETY: the endpoint is open.
        unsafe { tabane_close(self.raw.as_ptr()) }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner, and it is being dropped.
        unsafe { tabane_endpoint_free(self.raw.as_ptr()) }
    }
}

fn millis(limit: Option<Duration>) -> c_int {
    limit.map_or(-1, |limit| {
        c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX)
    })
}

/// The code of a failure, and the step that failed.
struct Failure {
    code: c_int,
    step: Step,
}

/// Calls a function of the shim that opens an object.
fn made<T>(open: impl FnOnce(*mut *mut T, *mut Step) -> c_int) -> Result<NonNull<T>, Failure> {
    let (mut out, mut step) = (ptr::null_mut(), ptr::null());
    let code = open(&raw mut out, &raw mut step);
    NonNull::new(out).ok_or(Failure { code, step })
}

impl Failure {
    /// An error that names the action `what`, the failed step and advice.
    fn explained(self, what: &str) -> io::Error {
        // SAFETY: steps are literals of the shim.
        let step = unsafe { CStr::from_ptr(self.step) }.to_string_lossy();
        let error = failed(self.code);
        let advice = match step.as_ref() {
            "fi_mr_reg" => {
                ". Rings are locked in memory; the limit of that is raised by `ulimit -l \
                 unlimited`, and for a service of systemd by LimitMEMLOCK=infinity under [Service]"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{what}: {step}: {error}{advice}"))
    }
}

fn checked(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(failed(code)),
    }
}

fn failed(code: c_int) -> io::Error {
    let errno = -code;
    // SAFETY: libfabric has a text for every number, which stays where it is.
    let text = unsafe { CStr::from_ptr(tabane_strerror(code)) }.to_string_lossy();
    match errno {
        ESHUTDOWN | ECANCELED => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the connection has ended")
        }
        EMSGSIZE => io::Error::new(
            io::ErrorKind::InvalidInput,
            "a write that is not within the peer's ring",
        ),
        ENOMSG => io::Error::new(
            io::ErrorKind::InvalidData,
            "a peer that does not speak this protocol",
        ),
        ETIMEDOUT => io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer"),
        _ => {
            let kind = io::Error::from_raw_os_error(errno).kind();
            io::Error::new(kind, text.into_owned())
        }
    }
}

const ENOMSG: c_int = 42;
const EMSGSIZE: c_int = 90;
const ESHUTDOWN: c_int = 108;
const ETIMEDOUT: c_int = 110;
const ECANCELED: c_int = 125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_that_may_be_locked_is_told_with_what_raises_it() {
        let (code, step) = (-12, c"fi_mr_reg".as_ptr());
        let error = Failure { code, step }.explained("a peer that connects");
        let text = error.to_string();
        assert!(text.contains("ulimit -l unlimited"), "{text}");
        assert!(text.contains("LimitMEMLOCK=infinity"), "{text}");
    }
}
