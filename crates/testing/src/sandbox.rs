//! Sandboxes that lack system calls.

/// From here on this thread, those that it starts and programs that it becomes are told that there
/// are no such calls.
///
/// Of `futex` only what is shared by processes: C libraries abort where their own locks fail.
pub fn forbid(calls: &[libc::c_long]) {
    /// Where `seccomp_data` has the number of the call and its second argument.
    const NUMBER: u32 = 0;
    const SECOND: u32 = 24;
    let step = |code: u32, if_so: u8, if_not: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: if_so,
        jf: if_not,
        k: value,
    };
    let load = |at: u32| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let answer = |value: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let mut program = Vec::new();
    for &call in calls {
        let mut refuse = Vec::new();
        if call == libc::SYS_futex {
            let private = libc::FUTEX_PRIVATE_FLAG as u32;
            refuse.push(load(SECOND));
            refuse.push(step(
                libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
                1,
                0,
                private,
            ));
        }
        refuse.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
        program.push(load(NUMBER));
        let others = refuse.len() as u8;
        program.push(step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            others,
            call as u32,
        ));
        program.extend(refuse);
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: a program, which is copied.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    assert!(installed, "{}", std::io::Error::last_os_error());
}
