//! The binary `forebay`.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_node::cli::main()
}
