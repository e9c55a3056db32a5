//! Options of repairs.

/// Options of repairs.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Report the damage, and change nothing.
    pub dry_run: bool,
    /// [`repair_index`](crate::Repository::repair_index): read the footer of every pack.
    pub all_packs: bool,
    /// [`repair_snapshots`](crate::Repository::repair_snapshots): remove the old snapshots.
    pub forget: bool,
}

tabane_storage::setters!(RepairOptions {
    set => dry_run: bool,
    set => all_packs: bool,
    set => forget: bool,
});
