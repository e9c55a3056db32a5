//! Which kernels the costs choose: few messages go to instructions of SHA, many to the widest.

use tabane_lanes::{Algorithm, Backend, choices};

#[test]
fn few_messages_go_to_instructions_and_many_to_the_widest() {
    for &algorithm in Algorithm::ALL {
        for (processor, chosen) in choices(algorithm).iter().enumerate() {
            println!("{algorithm} {processor}: {chosen:?}");
            if cfg!(target_arch = "x86_64") {
                if Backend::ShaNi.supports(algorithm) {
                    assert_eq!(chosen[0], (Backend::ShaNi, 1));
                }
                // On Zen 4 four messages of SHA-256 with SHA-NI are as fast as vectors of them.
                assert!(chosen.last().unwrap().1 >= 4);
                // What is left is never fewer than the lanes by so much that one at a time were
                // better.
                for (n, &(backend, lanes)) in chosen.iter().enumerate() {
                    let sparse = n < lanes / 8 && Backend::ShaNi.supports(algorithm);
                    assert!(!sparse, "{backend}: {lanes} lanes for {}", n + 1);
                }
            }
            if cfg!(target_arch = "aarch64") {
                let instructions = [Backend::ArmCe, Backend::ArmSha512]
                    .into_iter()
                    .find(|backend| backend.supports(algorithm));
                if let Some(instructions) = instructions {
                    assert!(chosen.iter().all(|&(backend, _)| backend == instructions));
                } else {
                    assert_eq!(chosen[0], (Backend::Portable, 1));
                    assert_eq!(chosen[15], (Backend::Neon, 16));
                }
            }
        }
    }
}
