//! The `tabane` command.
fn main() {}
