//! Room for recursion over directories.

/// Deepest directory that is walked, counted from the root.
pub(crate) const DEPTH_MAX: usize = 20_000;

/// Runs `work` on a thread whose stack has room for 20,000 levels of recursion.
pub fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const STACK_LEN: usize = 512 << 20;
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("walk".to_owned())
            .stack_size(STACK_LEN)
            .spawn_scoped(scope, work)
            .expect("the system can start a thread")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
