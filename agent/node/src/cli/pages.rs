//! `forebay completions` and `forebay man`: what shells and `man` know of the command
//! line, made of the same types as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::exit::Failure;
use crate::shell::output;
use crate::terminal::print_line;

/// What stands at the end of each page.
const SOURCE: &str = concat!("forebay ", env!("CARGO_PKG_VERSION"));

/// Prints completions for a shell
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay completions bash > /etc/bash_completion.d/forebay
  forebay completions zsh > ~/.zfunc/_forebay
  forebay completions fish > ~/.config/fish/completions/forebay.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes a man page for each command into a folder
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay man /usr/local/share/man/man1

Pages are called as commands are, with a dash between the words: man forebay-query-rolling.")]
pub(super) struct ManArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints completions.
pub(super) fn completions(args: &CompletionsArgs, command: Command) -> ExitCode {
    output::print(&script(args.shell, command))
}

fn script(shell: Shell, mut command: Command) -> String {
    let mut out = Vec::new();
    generate(shell, &mut command, "forebay", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes man pages.
pub(super) fn man(args: &ManArgs, command: Command) -> ExitCode {
    match write(&args.dir, command) {
        Ok(count) => print_line(&format!("{}: {count} pages", args.dir.display())),
        Err(text) => output::failed(&Failure::from(text)),
    }
}

fn write(dir: &Path, command: Command) -> Result<usize, String> {
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(dir).map_err(|error| told(dir, error))?;
    let pages = pages(command);
    for (name, page) in &pages {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(|error| told(&path, error))?;
    }
    Ok(pages.len())
}

/// The page of a command and of each below it, with the names of their files.
fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    // Help of subcommands is no command of its own in the manual.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut out = Vec::new();
    let mut todo = vec![command];
    while let Some(command) = todo.pop() {
        todo.extend(command.get_subcommands().cloned());
        let man = Man::new(command).source(SOURCE);
        let mut page = Vec::new();
        // Writing to memory does not fail.
        if man.render(&mut page).is_ok() {
            out.push((man.get_filename(), page));
        }
    }
    out.sort();
    out
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_shell_has_completions_that_name_the_commands() {
        assert_eq!(Shell::value_variants().len(), 5);
        for shell in Shell::value_variants() {
            let script = script(*shell, Cli::command());
            for word in ["rolling", "upstream", "completions"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let pages = pages(Cli::command());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "forebay.1",
            "forebay-query-rolling.1",
            "forebay-upstream-verify.1",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            assert!(text.contains(".TH"), "{name}: {text}");
            assert!(text.contains(".SH NAME"), "{name}: {text}");
        }
    }
}
