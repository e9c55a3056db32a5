//! Who may see the page: names of the server, tokens and passwords, sessions.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, header};
use base64::prelude::{BASE64_STANDARD, Engine};
use tabane_storage::random;
use tabane_storage::sync::lock;

/// A session that is not used ends after this time.
const SESSION_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// Sessions at a time; a further one ends the one that was unused for longest.
const SESSIONS_MAX: usize = 64;

/// A wrong secret is answered after this pause, which doubles with every tenth one since the last
/// right one.
const WRONG_PAUSE: Duration = Duration::from_secs(1);

/// So often the pause doubles at most.
const DOUBLINGS_MAX: u32 = 5;

/// Wrong secrets that are being answered at a time; more are refused at once.
const WRONG_AT_ONCE_MAX: u32 = 2;

/// What lets a person in.
pub enum Secret {
    /// A random token, which is in the address that is printed.
    Token(Hidden),
    /// A password that a person has chosen.
    Password(Hidden),
    /// The certificate of the client alone, which the TLS layer has checked.
    Certificate,
}

/// A secret that is compared by a hash, so that time tells nothing.
pub struct Hidden {
    hash: blake3::Hash,
    key: [u8; 32],
}

impl Secret {
    /// A random token, and its text.
    pub fn token() -> (Self, String) {
        let token = hex::encode(random::<16>());
        (Self::Token(Hidden::new(token.as_bytes())), token)
    }

    /// A password.
    pub fn password(password: &[u8]) -> Self {
        Self::Password(Hidden::new(password))
    }

    fn is(&self, given: &[u8]) -> bool {
        match self {
            Self::Token(hidden) | Self::Password(hidden) => hidden.is(given),
            Self::Certificate => false,
        }
    }
}

impl Hidden {
    fn new(secret: &[u8]) -> Self {
        let key = random();
        Self {
            hash: blake3::keyed_hash(&key, secret),
            key,
        }
    }

    fn is(&self, given: &[u8]) -> bool {
        // The comparison takes the same time whatever differs.
        blake3::keyed_hash(&self.key, given) == self.hash
    }
}

/// The session of a browser that was let in.
#[derive(Clone, Debug)]
pub struct Session {
    /// What every form of this session sends back.
    pub form_token: String,
}

struct Kept {
    session: Session,
    used: Instant,
}

/// What is decided of each request before anything else.
pub struct Access {
    secret: Secret,
    /// Name of the cookie; cookies do not tell ports apart.
    cookie: String,
    is_tls: bool,
    is_host: Box<dyn Fn(&str) -> bool + Send + Sync>,
    sessions: Mutex<HashMap<[u8; 32], Kept>>,
    /// Wrong secrets that are being answered, and all since the last right one.
    wrong_now: AtomicU32,
    wrong: AtomicU32,
}

/// The outcome of an attempt to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// The secret is right.
    Right,
    /// The secret is wrong.
    Wrong,
    /// Too many wrong ones at once.
    TooMany,
}

impl Access {
    /// `is_host` tells whether a `Host` header means this server; `port` is the server's.
    pub fn new(
        secret: Secret,
        port: u16,
        is_tls: bool,
        is_host: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            secret,
            cookie: format!("tabane-{port}"),
            is_tls,
            is_host: Box::new(is_host),
            sessions: Mutex::default(),
            wrong_now: AtomicU32::new(0),
            wrong: AtomicU32::new(0),
        }
    }

    /// Whether people log in with a password of their own choice.
    pub fn has_password(&self) -> bool {
        matches!(self.secret, Secret::Password(_))
    }

    /// Whether whoever reaches the server has shown a certificate, and needs nothing else.
    pub fn is_by_certificate(&self) -> bool {
        matches!(self.secret, Secret::Certificate)
    }

    /// Whether the request means this server. Another name in it is that of a page elsewhere,
    /// whose name was made to lead here (DNS rebinding).
    pub fn is_meant(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().is_ok_and(|host| (self.is_host)(host)),
            _ => false,
        }
    }

    /// Whether a request that changes something comes from a page of this server, as far as the
    /// browser tells.
    pub fn is_from_here(&self, method: &Method, headers: &HeaderMap) -> bool {
        if matches!(*method, Method::GET | Method::HEAD) {
            return true;
        }
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let scheme = if self.is_tls { "https" } else { "http" };
        let own = text("host").map(|host| format!("{scheme}://{host}"));
        let site = text("sec-fetch-site");
        let origin = text("origin");
        site.is_none_or(|site| site == "same-origin")
            && origin.is_none_or(|origin| Some(origin) == own.as_deref())
            && (site.is_some() || origin.is_some())
    }

    /// Whether this is the secret. A wrong one takes a while, and few can be tried at once; the
    /// right one is never held up.
    pub async fn try_secret(&self, given: &[u8]) -> Login {
        if self.secret.is(given) {
            self.wrong.store(0, Ordering::Relaxed);
            return Login::Right;
        }
        let wrong = self.wrong.fetch_add(1, Ordering::Relaxed);
        let (others, _counted) = Counted::new(&self.wrong_now);
        if others >= WRONG_AT_ONCE_MAX {
            return Login::TooMany;
        }
        tokio::time::sleep(WRONG_PAUSE * (1 << (wrong / 10).min(DOUBLINGS_MAX))).await;
        Login::Wrong
    }

    /// Begins a session; returns it and the value of `Set-Cookie` for it.
    pub fn begin(&self) -> (Session, String) {
        let id: [u8; 32] = random();
        let session = Session {
            form_token: hex::encode(random::<16>()),
        };
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                sessions.remove(&oldest);
            }
        }
        let kept = Kept {
            session: session.clone(),
            used: Instant::now(),
        };
        sessions.insert(*blake3::hash(&id).as_bytes(), kept);
        (session, self.set_cookie(&hex::encode(id), None))
    }

    /// Ends the session of these headers; returns the value of `Set-Cookie` that removes it.
    pub fn end(&self, headers: &HeaderMap) -> String {
        if let Some(id) = self.session_id(headers) {
            lock(&self.sessions).remove(&id);
        }
        self.set_cookie("", Some(0))
    }

    fn set_cookie(&self, value: &str, max_age: Option<u32>) -> String {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let age = max_age.map_or_else(String::new, |age| format!("; Max-Age={age}"));
        format!(
            "{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}",
            self.cookie
        )
    }

    /// The session that the headers name, if it has not ended.
    pub fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let id = self.session_id(headers)?;
        let mut sessions = lock(&self.sessions);
        sessions.retain(|_, kept| kept.used.elapsed() < SESSION_TIMEOUT);
        let kept = sessions.get_mut(&id)?;
        kept.used = Instant::now();
        Some(kept.session.clone())
    }

    fn session_id(&self, headers: &HeaderMap) -> Option<[u8; 32]> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
        cookies.find_map(|cookies| {
            let mut pairs = cookies
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == self.cookie)?;
            let mut id = [0; 32];
            hex::decode_to_slice(value, &mut id).ok()?;
            Some(*blake3::hash(&id).as_bytes())
        })
    }
}

/// Counts until it is dropped, as it is when a client does not wait for its answer.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    /// Also returns the count before.
    fn new(counter: &'a AtomicU32) -> (u32, Self) {
        (counter.fetch_add(1, Ordering::Relaxed), Self(counter))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The password of `Authorization: Basic …`, whoever the user is.
pub fn basic_password(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}
