//! One option for the linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program may unload the provider while threads live whose exit runs destructors of Rust's
    // standard library. So `dlclose` must leave the code where it is.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
