//! Where the demo's figures go: the live view on a terminal, or one line a second
//! elsewhere.

use std::io::{self, Write as _};

use super::view::Counters;
use crate::top::model::{Press, Top};
use crate::top::screen::Screen;
use crate::top::view;

#[derive(Debug)]
pub(super) enum Shown {
    /// Draws over itself.
    Live(Screen),
    /// A line a second.
    Lines,
    /// Says nothing: the caller wants the last line only.
    Silent,
}

impl Shown {
    pub(super) fn open(is_silent: bool) -> Self {
        if is_silent {
            return Self::Silent;
        }
        if !Screen::is_there() {
            return Self::Lines;
        }
        // A terminal that cannot be drawn over can be written to.
        Screen::open().map_or(Self::Lines, Self::Live)
    }

    pub(super) fn show(&mut self, top: &mut Top, counters: &Counters) {
        match self {
            Self::Live(_) => self.draw(top),
            Self::Lines => {
                // Nobody reads any more: the demo goes on and ends by itself.
                let _ = writeln!(io::stdout(), "{}", counters.line(false));
            }
            Self::Silent => {}
        }
    }

    pub(super) fn draw(&mut self, top: &mut Top) {
        if let Self::Live(screen) = self {
            let (_, height) = Screen::size();
            // As above.
            let _ = screen.draw(&view::lines(top, height));
        }
    }

    /// The next key; none ever comes where there is no terminal.
    pub(super) async fn press(&mut self) -> Option<Press> {
        match self {
            Self::Live(screen) => screen.presses.recv().await,
            Self::Lines | Self::Silent => std::future::pending().await,
        }
    }
}
