//! The terminal of a live view: drawn over, keys in, and left as it was, also when the
//! program ends by an error, a panic or a signal that it listens to.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, execute, queue, terminal};
use tokio::sync::mpsc;

use super::model::Press;
use super::view::Line;
use crate::shell::colour;

/// Size when the terminal does not say.
const SIZE_DEFAULT: (u16, u16) = (100, 30);
/// Keys that wait to be looked at; what is pressed faster is dropped.
const PRESSES_MAX: usize = 64;
/// How often the reader of keys looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A terminal that is drawn over.
#[derive(Debug)]
pub struct Screen {
    pub presses: mpsc::Receiver<Press>,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Whether there is a terminal to draw on.
    #[must_use]
    pub fn is_there() -> bool {
        io::stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// Takes the terminal over.
    ///
    /// # Errors
    /// What the system says.
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let (sender, presses) = mpsc::channel(PRESSES_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let mut screen = Self {
            presses,
            is_over,
            reader: None,
        };
        // From here on dropping it restores the terminal.
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        let reader = std::thread::Builder::new().name(String::from("keys"));
        screen.reader = Some(reader.spawn(move || read(&sender, &over))?);
        Ok(screen)
    }

    /// Columns and lines.
    #[must_use]
    pub fn size() -> (usize, usize) {
        let (columns, lines) = terminal::size().unwrap_or(SIZE_DEFAULT);
        (usize::from(columns), usize::from(lines))
    }

    /// Draws lines over what is there.
    ///
    /// # Errors
    /// What the system says: nobody looks any more.
    pub fn draw(&self, lines: &[Line]) -> io::Result<()> {
        draw_on(&mut io::stdout().lock(), lines, Self::size())
    }
}

fn draw_on(
    out: &mut impl io::Write,
    lines: &[Line],
    (columns, rows): (usize, usize),
) -> io::Result<()> {
    queue!(out, cursor::MoveTo(0, 0))?;
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            write!(out, "\r\n")?;
        }
        // Before the text: behind one as wide as the terminal the cursor stands on its last
        // sign, and would clear it.
        queue!(out, terminal::Clear(terminal::ClearType::UntilNewLine))?;
        write!(out, "{}", line.text(columns, colour::on()))?;
    }
    if lines.len() < rows {
        write!(out, "\r\n")?;
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    }
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It looks every so often; a panic of its own was told.
            let _ = reader.join();
        }
        // A terminal that is gone needs nothing any more.
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Reads keys until it is over, or the terminal is gone.
fn read(to: &mpsc::Sender<Press>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let press = match event::poll(LOOK) {
            Ok(false) => continue,
            Ok(true) => event::read().map(press_of),
            Err(error) => Err(error),
        };
        match press {
            Ok(Some(press)) => {
                // Whoever leans on a key does not stop the view.
                let _ = to.try_send(press);
            }
            Ok(None) => {}
            Err(_) => {
                let _ = to.blocking_send(Press::Interrupt);
                return;
            }
        }
    }
}

fn press_of(event: Event) -> Option<Press> {
    match event {
        Event::Resize(..) => Some(Press::Resize),
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key),
        Event::Key(_)
        | Event::FocusGained
        | Event::FocusLost
        | Event::Mouse(_)
        | Event::Paste(_) => None,
    }
}

fn key_of(key: KeyEvent) -> Option<Press> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    let known = [
        (KeyCode::Enter, Press::Enter),
        (KeyCode::Esc, Press::Escape),
        (KeyCode::Backspace, Press::Backspace),
        (KeyCode::Up, Press::Up),
        (KeyCode::Down, Press::Down),
        (KeyCode::PageUp, Press::PageUp),
        (KeyCode::PageDown, Press::PageDown),
        (KeyCode::Home, Press::Home),
        (KeyCode::End, Press::End),
    ];
    if let KeyCode::Char(c) = key.code {
        return match (is_control, c) {
            (true, 'c' | 'd') => Some(Press::Interrupt),
            (true, _) => None,
            (false, c) => Some(Press::Char(c)),
        };
    }
    let found = known.iter().find(|(code, _)| *code == key.code);
    found.map(|(_, press)| *press)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::colour::Tone;

    #[test]
    fn nothing_is_cleared_behind_a_line_as_wide_as_the_terminal() {
        let line = |text: &str| Line(vec![(text.to_owned(), Tone::Plain)]);
        for (name, rows, want) in [
            (
                "as many lines as rows",
                2,
                "\x1b[1;1H\x1b[Kabcd\r\n\x1b[Kabc…",
            ),
            ("fewer", 3, "\x1b[1;1H\x1b[Kabcd\r\n\x1b[Kabc…\r\n\x1b[J"),
        ] {
            let mut out = Vec::new();
            draw_on(&mut out, &[line("abcd"), line("abcde")], (4, rows)).expect("a vector");
            assert_eq!(String::from_utf8_lossy(&out), want, "{name}");
        }
    }
}
