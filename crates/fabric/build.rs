//! Compiles the shim of libfabric, if that backend is wanted.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "libfabric")]
    shim();
}

#[cfg(feature = "libfabric")]
fn shim() {
    println!("cargo::rerun-if-changed=shim/libfabric.c");
    let compiled = cc::Build::new()
        .file("shim/libfabric.c")
        .std("gnu11")
        .try_compile("tabane_libfabric");
    if let Err(error) = compiled {
        panic!(
            "the feature libfabric needs libfabric's headers (Debian package libfabric-dev): \
             {error}"
        );
    }
    println!("cargo::rustc-link-lib=fabric");
}
