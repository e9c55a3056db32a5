//! Options that say how long a snapshot stays.

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tabane_store::Id;
use tabane_store::forget::Age;
use tabane_store::snapshot::{Retention, Snapshot};

use crate::args::parse;
use crate::output::warn;

/// The options.
#[derive(Args, Clone, Debug)]
pub struct RetentionArgs {
    /// Let `forget` keep the snapshot until it is this old, and remove it then, whatever the rules
    /// are: 14d, 1y6m
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    #[arg(help_heading = "About the snapshot", conflicts_with = "delete_never")]
    delete_after: Option<Age>,
    /// Let `forget` not remove the snapshot, neither by its rules nor by its name
    #[arg(long, help_heading = "About the snapshot", hide_short_help = true)]
    delete_never: bool,
}

impl RetentionArgs {
    /// What they say of a snapshot of this time.
    pub fn of(&self, time: Timestamp) -> Option<Retention> {
        match self.delete_after {
            _ if self.delete_never => Some(Retention::Never),
            Some(age) => {
                let end = age.after(&time.to_zoned(TimeZone::system()));
                Some(Retention::Until(end))
            }
            None => None,
        }
    }
}

/// Whether a snapshot is never to be removed, which is said then.
pub fn is_never_removed(id: Id, snapshot: &Snapshot) -> bool {
    let is_never = snapshot.retention == Some(Retention::Never);
    if is_never {
        warn(format!(
            "snapshot {id} stays, since it is marked with --delete-never: `tabane tag \
             --delete-by-rules {id}` makes one of it without the mark",
            id = id.short()
        ));
    }
    is_never
}
