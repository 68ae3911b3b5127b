//! Bounds of connections, for all addresses together and for each.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many at a time.
pub struct Places {
    most: usize,
    most_of_one: usize,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// One of them, until it is dropped.
pub struct Place {
    places: Arc<Places>,
    of: IpAddr,
}

impl Places {
    /// At most so many, and so many of one address. This machine's own may have all.
    pub fn new(most: usize, most_of_one: usize) -> Arc<Places> {
        Arc::new(Places { most, most_of_one, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of this address; None: there is none.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let of = site(address);
        let mut taken = self.taken();
        let all: usize = taken.values().sum();
        let own = taken.get(&of).copied().unwrap_or(0);
        if all >= self.most || (own >= self.most_of_one && !of.is_loopback()) {
            return None;
        }
        taken.insert(of, own + 1);
        Some(Place { places: self.clone(), of })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match taken.get_mut(&self.of) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = taken.remove(&self.of),
        }
    }
}

/// One client has many addresses of IPv6: those of a /64 count as one.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => IpAddr::V6((u128::from(address) & (u128::MAX << 64)).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded() {
        let places = Places::new(3, 2);
        let take = |address: &str| places.take(address.parse().unwrap());
        let (one, two) = (take("10.0.0.1"), take("10.0.0.1"));
        assert!(one.is_some() && two.is_some());
        assert!(take("10.0.0.1").is_none() && take("::ffff:10.0.0.1").is_none());
        let third = take("2001:db8::1");
        assert!(third.is_some());
        assert!(take("10.0.0.2").is_none());
        drop(third);
        let third = take("10.0.0.2");
        drop(one);
        assert!(third.is_some() && take("10.0.0.1").is_some());
        drop((two, third));
        assert!(places.taken().is_empty());
        let local: Vec<_> = (0..4).map(|_| take("127.0.0.1")).collect();
        assert!(local[2].is_some() && local[3].is_none());
        drop(local);
        let site = [take("2001:db8::1"), take("2001:db8::2"), take("2001:db8::3")];
        assert!(site[1].is_some() && site[2].is_none());
    }
}
