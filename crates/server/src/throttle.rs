//! Keeps those who try tokens from trying many.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Wrong tokens from one address within [`WINDOW`], beyond which no token from there is looked at.
pub const TRIES_MAX: u32 = 10;

/// Time after which an address may try again.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Wrong tokens by address.
#[derive(Default)]
pub struct Throttle(Mutex<HashMap<IpAddr, Tries>>);

struct Tries {
    count: u32,
    since: Instant,
}

impl Throttle {
    /// Whether tokens from this address are looked at.
    pub fn admits(&self, address: IpAddr, now: Instant) -> bool {
        let tries = self.0.lock().expect("no panic under this lock");
        let of_address = tries.get(&network(address));
        of_address.is_none_or(|tries| tries.count < TRIES_MAX || now - tries.since >= WINDOW)
    }

    /// Notes a wrong token; returns how many there were within the window.
    pub fn note(&self, address: IpAddr, now: Instant) -> u32 {
        let mut tries = self.0.lock().expect("no panic under this lock");
        if tries.len() >= ADDRESSES_MAX {
            tries.retain(|_, tries| now - tries.since < WINDOW);
            if tries.len() >= ADDRESSES_MAX {
                tries.clear();
            }
        }
        let entry = tries.entry(network(address)).or_insert(Tries {
            count: 0,
            since: now,
        });
        if now - entry.since >= WINDOW {
            *entry = Tries {
                count: 0,
                since: now,
            };
        }
        entry.count += 1;
        entry.count
    }
}

/// The network that one customer has: of IPv6, the first 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_waiting_after_some_tries_and_others_are_not() {
        let throttle = Throttle::default();
        let (start, bad, good) = (
            Instant::now(),
            "192.0.2.1".parse().unwrap(),
            "192.0.2.2".parse().unwrap(),
        );
        for number in 1..=TRIES_MAX {
            assert!(throttle.admits(bad, start));
            assert_eq!(throttle.note(bad, start), number);
        }
        assert!(!throttle.admits(bad, start));
        assert!(!throttle.admits("::ffff:192.0.2.1".parse().unwrap(), start));
        assert!(throttle.admits(good, start));
        assert!(throttle.admits(bad, start + WINDOW));
        assert_eq!(throttle.note(bad, start + WINDOW), 1);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let throttle = Throttle::default();
        let start = Instant::now();
        for host in 0..u128::from(TRIES_MAX) {
            throttle.note(
                IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | host)),
                start,
            );
        }
        assert!(!throttle.admits("2001:db8::ffff".parse().unwrap(), start));
        assert!(throttle.admits("2001:db8:0:1::1".parse().unwrap(), start));
    }
}
