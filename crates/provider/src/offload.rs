//! Combines the calls of more processes than cores: the offload service (`tabane offload serve`),
//! if running, does their work side by side when it reports that this is faster.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tabane_offload::Client;

use crate::error::Reason;
use crate::work::Work;

static CLIENT: Client = Client::new();

/// The socket of the service, if one is to be asked.
static SERVICE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// The variable with the socket, before all else; `no` for none.
const VARIABLE: &str = "TABANE_OFFLOAD";

/// Decides whether there is a service. `configured` is what the configuration says.
///
/// Only here files are looked at: later on a program may have forbidden itself to make sockets, and
/// would be ended for it.
pub(crate) fn find(configured: Option<&[u8]>) {
    SERVICE.get_or_init(|| {
        let named = variable(VARIABLE).or(configured.map(|path| OsStr::from_bytes(path).into()));
        let service = match named {
            Some(no) if no == Path::new("no") => return None,
            Some(named) => named,
            None => {
                let user = variable("XDG_RUNTIME_DIR").map(|dir| dir.join("tabane/offload.sock"));
                let usual = [Some(PathBuf::from("/run/tabane/offload.sock")), user];
                usual.into_iter().flatten().find(|usual| usual.exists())?
            }
        };
        // SAFETY: the function may be called after a fork.
        let watched = unsafe { libc::pthread_atfork(None, None, Some(forked)) == 0 };
        watched.then_some(service)
    });
}

/// A variable of the environment, unless the program runs with raised privileges.
fn variable(name: &str) -> Option<PathBuf> {
    // SAFETY: a function that does nothing but to tell.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name)
        .filter(|_| !secure)
        .map(PathBuf::from)
}

/// Does work, with that of other processes if that is sooner.
pub(crate) fn within(work: Work) -> Result<(), Reason> {
    let Some(service) = SERVICE.get().and_then(Option::as_ref) else {
        return work.alone();
    };
    let rest = match work {
        Work::Encrypt { key, iv, mut data } => {
            let done = CLIENT.cbc_encrypt(service, key, iv, &mut data);
            let data = data.split_at(done).1;
            Work::Encrypt { key, iv, data }
        }
        Work::Hash { hasher, data } => {
            let done = CLIENT.update(service, hasher, data);
            let data = &data[done..];
            Work::Hash { hasher, data }
        }
    };
    rest.alone()
}

unsafe extern "C" fn forked() {
    CLIENT.forked();
}
