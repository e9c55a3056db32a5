//! `tabane mount`

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Args;
use serde_json::json;
use tabane_mount::{MountError, Options, Templates, Unmounted};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, print_json, warn};
use crate::process;
use crate::select::Selection;

/// Mount the snapshots as a file system, to browse them and to copy out of them
#[derive(Args)]
#[command(after_help = "\
In the mounted directory, snapshots are found as ids/<ID>, snapshots/<time>, hosts/<host>/<time> \
and tags/<tag>/<time>, with a link `latest` beside the times. New ones appear while it is mounted. \
Nothing can be written. A mount does not hold up `tabane prune`: what is forgotten and pruned \
meanwhile can no longer be read. The mount ends with Ctrl-C, or when somebody unmounts the \
directory; a second Ctrl-C cuts off programs that still use it.

This needs /dev/fuse, and the program fusermount3 (package fuse3) unless root mounts.

Examples:
  tabane mount -r /mnt/backup /mnt/snapshots
  cp -a /mnt/snapshots/snapshots/latest/home/ada/thesis ~
  tabane mount -r /mnt/backup --allow-other --host web /mnt/snapshots
  umount /mnt/snapshots")]
pub struct Mount {
    /// An empty directory
    #[arg(value_name = "MOUNTPOINT")]
    mountpoint: PathBuf,
    /// Let other users in too
    #[arg(long)]
    allow_other: bool,
    /// With --allow-other: don't look at the permissions of files, so that all users can read all
    /// of them
    #[arg(long, requires = "allow_other")]
    no_default_permissions: bool,
    /// Show everything as belonging to root
    #[arg(long)]
    owner_root: bool,
    /// Show snapshots under this path: %i is the short ID, %I the ID, %h the host, %u the user, %t
    /// each tag, %T the time (repeatable) [default: ids/%i snapshots/%T hosts/%h/%T tags/%t/%T]
    #[arg(long, value_name = "PATH", value_parser = path_template, hide_short_help = true)]
    path_template: Vec<String>,
    /// Write times so, as strftime does: %Y-%m-%d
    #[arg(long, value_name = "FORMAT", value_parser = time_template, hide_short_help = true)]
    time_template: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

fn path_template(text: &str) -> std::result::Result<String, String> {
    Templates::new(&[text], None).map(|_| text.to_owned())
}

fn time_template(text: &str) -> std::result::Result<String, String> {
    Templates::new::<&str>(&[], Some(text)).map(|_| text.to_owned())
}

impl Mount {
    /// Runs `tabane mount`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        // Checked before a password is asked for.
        tabane_mount::check(&self.mountpoint)?;
        let templates = Templates::new(&self.path_template, self.time_template.as_deref())
            .map_err(Failure::Usage)?;
        let repository = global.open()?;
        let options = Options {
            templates,
            filter: self.selection.filter(),
            allow_other: self.allow_other,
            ignore_permissions: self.no_default_permissions,
            owner_root: self.owner_root,
        };
        let mut mounted = tabane_mount::mount(&repository, &self.mountpoint, options, |text| {
            warn(text);
        })?;
        let mut unmounter = mounted.unmounter();
        let shown = self.mountpoint.display().to_string();
        // The last file may be closed before that was said.
        let telling = Arc::new(Mutex::new(()));
        let told = Arc::clone(&telling);
        process::on_signal(move || {
            let _telling = telling.lock();
            match unmounter.unmount() {
                Ok(Unmounted::Now) => {}
                Ok(Unmounted::WhenUnused) => warn(format!(
                    "{shown} is unmounted, but programs still use files in it: waiting for them \
                     (Ctrl-C cuts them off)"
                )),
                Err(error) => warn(format!("cannot unmount {shown}: {error}")),
            }
        });
        if global.json {
            let mountpoint = self.mountpoint.to_string_lossy();
            print_json(&json!({"message_type": "mounted", "mountpoint": mountpoint}))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.name(b"serving the snapshots in ")?;
            output.path(&self.mountpoint)?;
            output.line("; Ctrl-C or unmounting ends it")?;
            output.finish()?;
        }
        let served = mounted.serve();
        let _told = told.lock();
        served.map_err(|error| {
            Failure::Other(format!("the system broke off the connection: {error}"))
        })?;
        Ok(Exit::Success)
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        match error {
            MountError::Repository(error) => Self::Store(error),
            error => Self::Other(advice::explain_mount(&error)),
        }
    }
}
