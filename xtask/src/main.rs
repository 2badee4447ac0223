//! Every command a developer or CI runs.
fn main() {}
