//! What the fuzzer has found and the repository keeps.

use tabane_testing::corpus::kept;
use tabane_testing::openssl::Offered;
use tabane_testing::openssl::libcrypto::libcrypto;

#[test]
fn kept_sequences_give_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = Offered::by(libcrypto);
    let inputs = kept("provider");
    assert!(!inputs.is_empty());
    for input in &inputs {
        offered.sequence(input);
    }
}
