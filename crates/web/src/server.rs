//! Starts the server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use tabane_http::tls::Tls;
use tabane_http::{Limits, Listener};
use tabane_store::Error;
use tower_service::Service;

use crate::access::{Access, Secret};
use crate::app::App;
use crate::jobs::Jobs;
use crate::places::{Place, Shown};
use crate::routes::router;

/// What to show, and to whom.
pub struct Options {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Certificate and key; nothing for plain HTTP, which only the same machine should use.
    pub tls: Option<Tls>,
    /// What lets a person in.
    pub secret: Secret,
    /// Further values of the `Host` header under which the page is reached.
    pub hosts: Vec<String>,
    /// The repositories.
    pub places: Vec<Place>,
    /// The `tabane` command, for jobs.
    pub program: PathBuf,
    /// Where what became of jobs is kept; nothing to keep it as long as the server runs.
    pub history: Option<PathBuf>,
    /// Whether jobs may be started.
    pub allow_jobs: bool,
    /// Folders into which may be restored.
    pub allow_restore: Vec<PathBuf>,
    /// The text of an error of a repository, with advice.
    pub explain: fn(&Error) -> String,
    /// Hears of failed logins, refused certificates and broken downloads.
    pub report: fn(&str),
}

/// A server that is bound to its address.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listener: Listener,
    address: SocketAddr,
    app: Arc<App>,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// When the address is in use or none of this machine.
    pub fn bind(options: Options) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("web")
            .enable_all()
            .build()?;
        let Options {
            address,
            tls,
            secret,
            hosts,
            places,
            program,
            history,
            allow_jobs,
            allow_restore,
            explain,
            report,
        } = options;
        let listening = Listener::bind(address, tls.clone(), Limits::default());
        let listener = runtime.block_on(listening)?.report_to(report);
        let address = listener.address()?;
        let is_tls = tls.is_some();
        let is_host = move |host: &str| is_own_name(host, address, tls.as_ref(), &hosts);
        let access = Access::new(secret, address.port(), is_tls, is_host);
        let places = places.into_iter();
        let places = places.map(|place| Arc::new(Shown::new(place, explain)));
        let app = Arc::new(App {
            access,
            places: places.collect(),
            jobs: Jobs::new(program, history),
            allow_jobs,
            allow_restore,
            report,
        });
        Ok(Self {
            runtime,
            listener,
            address,
            app,
        })
    }

    /// The address, with the port that the system has chosen if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` ends.
    pub fn serve(self, stop: impl Future) {
        let router = router(Arc::clone(&self.app));
        let answer = move |request: hyper::Request<hyper::body::Incoming>| {
            let mut router = router.clone();
            async move {
                let answered = router.call(request.map(Body::new)).await;
                answered.unwrap_or_else(|never| match never {})
            }
        };
        self.runtime.block_on(self.listener.serve(answer, stop));
        self.app.jobs.stop();
        // Threads that wait for a storage end with the process.
        self.runtime.shutdown_background();
    }
}

/// Whether a `Host` header names this server: its address, `localhost` for one of loopback, a name
/// of its certificate, or one that was given.
fn is_own_name(host: &str, address: SocketAddr, tls: Option<&Tls>, given: &[String]) -> bool {
    if given.iter().any(|name| name.eq_ignore_ascii_case(host)) {
        return true;
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(if tls.is_some() { 443 } else { 80 })),
    };
    if port != Some(address.port()) {
        return false;
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_address = bare.parse().is_ok_and(|ip: std::net::IpAddr| {
        ip == address.ip() || address.ip().is_loopback() && ip.is_loopback()
    });
    is_address
        || address.ip().is_loopback() && name.eq_ignore_ascii_case("localhost")
        || tls.is_some_and(|tls| tls.is_for(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered_to() {
        let local: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        let given = ["backup.example:8443".to_owned()];
        for (host, is_own) in [
            ("127.0.0.1:8080", true),
            ("localhost:8080", true),
            ("LOCALHOST:8080", true),
            ("[::1]:8080", true),
            ("backup.example:8443", true),
            ("127.0.0.1", false),
            ("127.0.0.1:80", false),
            ("evil.example:8080", false),
            ("localhost.evil.example:8080", false),
            ("127.0.0.1.evil.example:8080", false),
            ("10.0.0.1:8080", false),
            ("", false),
            (":8080", false),
        ] {
            assert_eq!(is_own_name(host, local, None, &given), is_own, "{host}");
        }
    }
}
