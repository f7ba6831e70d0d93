//! Where the demo's frames go: a terminal that is drawn over, or one line a second
//! elsewhere. Leaves the terminal as it was.

use std::io::{self, IsTerminal as _, Write as _};

use crossterm::{cursor, queue, terminal};

use super::view::{self, Frame};

/// Width when the terminal does not say.
const WIDTH_DEFAULT: usize = 100;

#[derive(Debug)]
pub(super) enum Screen {
    /// Draws over itself.
    Live,
    /// A line a second.
    Lines,
    /// Says nothing: the caller wants the last line only.
    Silent,
}

impl Screen {
    pub(super) fn open(silent: bool) -> Self {
        if silent {
            return Self::Silent;
        }
        if !io::stdout().is_terminal() {
            return Self::Lines;
        }
        let mut out = io::stdout();
        // A terminal that cannot hide its cursor shows it: no harm.
        let _ = queue!(out, cursor::Hide, terminal::Clear(terminal::ClearType::All));
        let _ = out.flush();
        Self::Live
    }

    pub(super) fn show(&mut self, frame: &Frame) {
        // Nobody reads any more: the demo goes on and ends by itself.
        let _ = match self {
            Self::Live => draw(frame),
            Self::Lines => writeln!(io::stdout(), "{}", frame.counters.line(false)),
            Self::Silent => Ok(()),
        };
    }
}

fn draw(frame: &Frame) -> io::Result<()> {
    let width = terminal::size().map_or(WIDTH_DEFAULT, |(columns, _)| usize::from(columns));
    let mut out = io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    for line in view::lines(frame, width) {
        write!(out, "{line}")?;
        queue!(out, terminal::Clear(terminal::ClearType::UntilNewLine))?;
        write!(out, "\r\n")?;
    }
    queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        if matches!(self, Self::Live) {
            let mut out = io::stdout();
            // Best effort: the shell's prompt shows its cursor again.
            let _ = queue!(out, cursor::Show);
            let _ = out.flush();
        }
    }
}
