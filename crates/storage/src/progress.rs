//! Who is told what a long look at a repository finds.

/// Is told what happens; called from many threads.
pub trait Progress: Send + Sync {
    /// Something is wrong or lost.
    fn problem(&self, what: &str);

    /// Something is worth knowing, and harmless.
    fn note(&self, what: &str);

    /// So many bytes were worked on, of so many in all.
    fn progress(&self, done_bytes: u64, total_bytes: u64);
}
