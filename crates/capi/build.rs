//! The name by which programs find the shared library when they start.

/// The first number of the name's end. It changes when a program that was linked with an earlier
/// version would no longer work.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtabane.so.{ABI}");
}
