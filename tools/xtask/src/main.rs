//! The binary of `cargo xtask`; all of it is in the library, so that cargo builds
//! one set of dependencies for every kind of test of the workspace.

fn main() -> std::process::ExitCode {
    xtask::main()
}
