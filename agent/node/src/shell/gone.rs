//! Whoever reads what a command prints may go away while there is nothing to print: then
//! the command ends at once, not with its next line.
//!
//! Holds always: nothing is written by it, and a file or a terminal never ends a command.
//! Knows no command.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::exit::Exit;

/// Ends the process as [`Exit::Ok`] when nobody reads its standard output any more. For
/// commands that wait for more and have nothing to clean up.
pub fn end_when_unread() {
    let watch = || {
        if is_unread(std::io::stdout()) {
            std::process::exit(i32::from(Exit::Ok.number()));
        }
    };
    // Without a thread the next line finds out.
    let _ = std::thread::Builder::new()
        .name(String::from("reader"))
        .spawn(watch);
}

/// Waits until nobody reads `output` any more; false: that cannot be found out.
fn is_unread(output: impl AsFd) -> bool {
    loop {
        // Errors and hang-ups are told without being asked for.
        let mut polled = [PollFd::new(&output, PollFlags::empty())];
        match poll(&mut polled, None) {
            Ok(_) => {
                let found = polled[0].revents();
                if found.contains(PollFlags::NVAL) {
                    return false;
                }
                if found.intersects(PollFlags::ERR | PollFlags::HUP) {
                    return true;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_found_out_without_a_write() {
        let (read, write) = std::io::pipe().unwrap();
        let (said, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || said.send(is_unread(write)));
        assert!(heard.try_recv().is_err(), "it is read");
        drop(read);
        assert_eq!(heard.recv(), Ok(true));
    }
}
