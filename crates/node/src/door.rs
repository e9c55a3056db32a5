//! Who may come in: how many connections that have not proved anything are let in at a time, who a
//! client is, and how much memory it may have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use tabane_storage::{Id, Result, Role, StorageError, StorageErrorKind};
use tabane_striped::cluster::tls;
use webpki::EndEntityCert;

use crate::lock;
use crate::withdrawn::fingerprint;

/// Connections that have not proved anything, at a time: from one address, and in all.
const UNPROVED_OF_ADDRESS_MAX: usize = 64;
const UNPROVED_MAX: usize = 512;

/// Lines about connections from one address that are logged at most in a [`LOG_PERIOD`].
const LOG_LINES_MAX: u64 = 8;
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Addresses that are remembered at most, so that nobody fills memory with them.
const ADDRESSES_MAX: usize = 4096;

/// Bytes of rings that one client may have at a node.
const CLIENT_BYTES_MAX: u64 = 1 << 30;

/// Bytes of rings of all clients, as a share of the machine's memory.
const MEMORY_SHARE: f64 = 0.75;

/// The memory of a machine that does not tell how much it has.
const MEMORY_BYTES: u64 = 4 << 30;

/// A client, as its certificate says.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What identifies its certificate.
    pub certificate: Id,
}

impl Client {
    /// The client with this certificate. A certificate of an older program has no role: its client
    /// may do everything.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = EndEntityCert::try_from(certificate).ok()?;
        let named = parsed.valid_dns_names().find_map(tls::parse_client_name);
        let (name, role) = match named {
            Some(named) => named,
            None if parsed.valid_dns_names().next().is_none() => ("client".to_owned(), Role::Admin),
            None => return None,
        };
        Some(Self {
            name,
            role,
            certificate: fingerprint(certificate),
        })
    }
}

/// The door of a node.
pub struct Door {
    state: Mutex<State>,
    bytes_max: u64,
}

#[derive(Default)]
struct State {
    unproved: HashMap<IpAddr, usize>,
    unproved_in_all: usize,
    /// Of each address, when its period began, and how much there was to log in it.
    logged: HashMap<IpAddr, (Instant, u64)>,
    /// Bytes of rings of each client.
    bytes: HashMap<Id, u64>,
    bytes_in_all: u64,
}

impl Default for Door {
    fn default() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = meminfo.lines().find_map(|line| {
            let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?;
            Some(kib.parse::<u64>().ok()? << 10)
        });
        Self {
            state: Mutex::default(),
            bytes_max: (total.unwrap_or(MEMORY_BYTES) as f64 * MEMORY_SHARE) as u64,
        }
    }
}

/// A connection that has not proved anything yet, until this is dropped.
pub struct Unproved {
    door: Arc<Door>,
    from: IpAddr,
}

/// Memory of a client, until this is dropped.
pub struct Memory {
    door: Arc<Door>,
    client: Id,
    bytes: u64,
}

impl Door {
    /// Lets a connection in that has not proved anything; `None` if there are too many.
    pub fn let_in(self: &Arc<Self>, from: IpAddr) -> Option<Unproved> {
        let mut state = lock(&self.state);
        let of_address = state.unproved.get(&from).copied().unwrap_or(0);
        if of_address >= UNPROVED_OF_ADDRESS_MAX || state.unproved_in_all >= UNPROVED_MAX {
            return None;
        }
        *state.unproved.entry(from).or_default() += 1;
        state.unproved_in_all += 1;
        Some(Unproved {
            door: Arc::clone(self),
            from,
        })
    }

    /// Connections that have not proved anything.
    pub fn unproved(&self) -> u64 {
        lock(&self.state).unproved_in_all as u64
    }

    /// The line to log about a connection from an address, if it is time for one.
    pub fn line(&self, from: IpAddr, why: &str) -> Option<String> {
        let mut state = lock(&self.state);
        if state.logged.len() >= ADDRESSES_MAX {
            state.logged.retain(|_, (at, _)| at.elapsed() < LOG_PERIOD);
        }
        if state.logged.len() >= ADDRESSES_MAX {
            return None;
        }
        let (begun, count) = state.logged.entry(from).or_insert((Instant::now(), 0));
        let mut missed = 0;
        if begun.elapsed() >= LOG_PERIOD {
            missed = count.saturating_sub(LOG_LINES_MAX);
            (*begun, *count) = (Instant::now(), 0);
        }
        *count += 1;
        match missed {
            _ if *count > LOG_LINES_MAX => None,
            0 => Some(why.to_owned()),
            missed => Some(format!(
                "{why} ({missed} more from there, not logged, before)"
            )),
        }
    }

    /// Gives a client memory for rings.
    ///
    /// # Errors
    /// When it has too much, or all clients together have.
    pub fn lend(self: &Arc<Self>, client: &Client, bytes: u64) -> Result<Memory> {
        let mut state = lock(&self.state);
        let own = state.bytes.get(&client.certificate).copied().unwrap_or(0);
        let who = if own + bytes > CLIENT_BYTES_MAX {
            format!("client {}", client.name)
        } else if state.bytes_in_all + bytes > self.bytes_max {
            "all clients together".to_owned()
        } else {
            *state.bytes.entry(client.certificate).or_default() += bytes;
            state.bytes_in_all += bytes;
            return Ok(Memory {
                door: Arc::clone(self),
                client: client.certificate,
                bytes,
            });
        };
        let text = format!("{who} would have too much memory of this node");
        Err(StorageError::new(StorageErrorKind::Permanent, text))
    }
}

impl Drop for Unproved {
    fn drop(&mut self) {
        let mut state = lock(&self.door.state);
        state.unproved_in_all -= 1;
        if let Some(count) = state.unproved.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                state.unproved.remove(&self.from);
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut state = lock(&self.door.state);
        state.bytes_in_all -= self.bytes;
        if let Some(bytes) = state.bytes.get_mut(&self.client) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                state.bytes.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_limit_and_all_have_one() {
        let door = Arc::new(Door::default());
        let address = |number: u8| IpAddr::from([10, 0, 0, number]);
        let of_one: Vec<_> = (0..100).map_while(|_| door.let_in(address(1))).collect();
        assert_eq!(of_one.len(), UNPROVED_OF_ADDRESS_MAX);
        assert!(door.let_in(address(2)).is_some());
        drop(of_one);
        assert!(door.let_in(address(1)).is_some());
        assert_eq!(door.unproved(), 0);
        let many: Vec<_> = (0..50_u8)
            .flat_map(|number| (0..20).map(move |_| number))
            .map_while(|number| door.let_in(address(number)))
            .collect();
        assert_eq!(many.len(), UNPROVED_MAX);
    }

    #[test]
    fn few_lines_are_logged_for_many_connections() {
        let door = Door::default();
        let from = IpAddr::from([10, 0, 0, 1]);
        let lines = (0..100).filter_map(|_| door.line(from, "garbage"));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            ["garbage"; LOG_LINES_MAX as usize]
        );
        let other = IpAddr::from([10, 0, 0, 2]);
        assert!(door.line(other, "garbage").is_some());
        let minute_ago = Instant::now().checked_sub(LOG_PERIOD).unwrap();
        lock(&door.state).logged.get_mut(&from).unwrap().0 = minute_ago;
        let next = door.line(from, "garbage").unwrap();
        assert!(next.contains("92 more"), "{next}");
        assert_eq!(door.line(from, "garbage").as_deref(), Some("garbage"));
    }

    #[test]
    fn a_client_has_its_share_of_memory() {
        let door = Arc::new(Door {
            bytes_max: 3 << 29,
            ..Door::default()
        });
        let client = |number: u8| Client {
            name: format!("c{number}"),
            role: Role::Append,
            certificate: Id([number; 32]),
        };
        let first = door.lend(&client(1), CLIENT_BYTES_MAX).unwrap();
        let error = door.lend(&client(1), 1).err().unwrap().to_string();
        assert!(
            error.starts_with("client c1 would have too much memory"),
            "{error}"
        );
        let _second = door.lend(&client(2), 1 << 29).unwrap();
        let error = door.lend(&client(2), 1).err().unwrap().to_string();
        assert!(error.starts_with("all clients together"), "{error}");
        drop(first);
        assert!(door.lend(&client(1), 1).is_ok());
    }
}
