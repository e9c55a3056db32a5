//! Lets peers in over libfabric.

use std::io;
use std::sync::Arc;

use tabane_striped::cluster::wire::FabricAddress;

use crate::shared::Shared;

#[cfg(feature = "libfabric")]
pub use with::Listener;
#[cfg(not(feature = "libfabric"))]
pub use without::Listener;

#[cfg(feature = "libfabric")]
mod with {
    use std::thread;
    use std::time::Duration;

    use tabane_fabric::{FabricListener, FabricRequest};
    use tabane_striped::cluster::STALL_TIMEOUT;

    use super::*;

    /// A listener for peers over libfabric.
    pub struct Listener {
        listener: FabricListener,
        address: FabricAddress,
    }

    impl Listener {
        /// Listens there.
        pub fn bind(address: &FabricAddress) -> io::Result<Self> {
            let FabricAddress {
                provider,
                host,
                port,
            } = address;
            let listener = FabricListener::bind(provider, host, *port)?;
            let port = listener.port();
            let address = FabricAddress {
                port,
                ..address.clone()
            };
            Ok(Self { listener, address })
        }

        /// Address of the listener.
        pub fn address(&self) -> &FabricAddress {
            &self.address
        }

        /// Admits peers with a token for a ring, until the listener is closed.
        pub fn run(&self, shared: &Arc<Shared>) {
            loop {
                match self.listener.next() {
                    Ok(request) => {
                        let shared = Arc::clone(shared);
                        let work = move || {
                            if let Err(error) = admit(&shared, request) {
                                (shared.log)(&format!("connection over libfabric ended: {error}"));
                            }
                        };
                        // If no thread can be started, the request is refused.
                        let _ = thread::Builder::new().spawn(work);
                    }
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
                    Err(error) => {
                        (shared.log)(&format!("connection over libfabric refused: {error}"));
                        // Files or memory may be exhausted for a while.
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            }
        }

        /// Takes no more connections.
        pub fn close(&self) {
            self.listener.close();
        }
    }

    fn admit(shared: &Shared, request: FabricRequest) -> io::Result<()> {
        let token = *request.token();
        let admitted = shared.admit(&token, |ring| {
            let endpoint = request.accept(ring, Some(STALL_TIMEOUT))?;
            shared.counters.fabric_connections.add(1);
            // A ring may be idle for as long as its session lasts; only credit has to go out.
            Ok(endpoint.limits(None, Some(STALL_TIMEOUT)))
        })?;
        let receiver = admitted.ok_or_else(crate::shared::without_permission)?;
        receiver.run_and_tell(|bytes| shared.counters.received_bytes.add(bytes));
        Ok(())
    }
}

#[cfg(not(feature = "libfabric"))]
mod without {
    use super::*;

    /// There is none.
    pub enum Listener {}

    impl Listener {
        /// Says so.
        pub fn bind(_: &FabricAddress) -> io::Result<Self> {
            let text = "this program was built without libfabric";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }

        pub fn address(&self) -> &FabricAddress {
            match *self {}
        }

        pub fn run(&self, _: &Arc<Shared>) {
            match *self {}
        }

        pub fn close(&self) {
            match *self {}
        }
    }
}
