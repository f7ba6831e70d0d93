//! The binary `forebay`.

fn main() {}
