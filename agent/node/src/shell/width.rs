//! How many columns of a terminal a text takes, and texts that take no more than they
//! may. Texts come from devices, too: what would steer the terminal is shown, not sent.

use unicode_width::UnicodeWidthStr as _;

/// Columns that a text takes; it was made [`clean`] before.
#[must_use]
pub fn of(text: &str) -> usize {
    text.width()
}

/// The text on one line, with a mark in place of each control character.
#[must_use]
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        // Marks that turn the direction of a line round.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        c => c,
    };
    text.chars().map(shown).collect()
}

/// As much of the text as stands in `width` columns, with `…` for what is left out.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if of(text) <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    // What a sign takes may depend on the next one: as a whole with the mark behind it.
    let cut_at = |end: usize| format!("{}…", &text[..end]);
    let mut out = cut_at(0);
    for (end, _) in text.char_indices().skip(1) {
        let longer = cut_at(end);
        if of(&longer) > width {
            break;
        }
        out = longer;
    }
    out
}

/// The text with spaces behind it up to `width` columns.
#[must_use]
pub fn left(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(of(text));
    format!("{text}{:spaces$}", "")
}

/// The text with spaces before it up to `width` columns.
#[must_use]
pub fn right(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(of(text));
    format!("{:spaces$}{text}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_their_columns() {
        for (name, text, width) in [
            ("none", "", 0),
            ("ASCII", "boiler", 6),
            ("accents", "boiler-é", 8),
            ("a combining accent", "e\u{301}", 1),
            ("wide", "温度", 4),
            ("bars", "▁█", 2),
        ] {
            assert_eq!(of(text), width, "{name}");
            assert_eq!(of(&left(text, 9)), 9, "{name}");
            assert_eq!(of(&right(text, 9)), 9, "{name}");
        }
    }

    #[test]
    fn texts_are_cut_at_their_columns() {
        for (text, width, want) in [
            ("boiler", 7, "boiler"),
            ("boiler", 6, "boiler"),
            ("boiler", 5, "boil…"),
            ("boiler", 1, "…"),
            ("boiler", 0, ""),
            ("温度計", 6, "温度計"),
            ("温度計", 5, "温度…"),
            ("温度計", 4, "温…"),
            // Two columns by what stands behind it, not by itself.
            ("❤\u{fe0f}❤\u{fe0f}", 4, "❤\u{fe0f}❤\u{fe0f}"),
            ("❤\u{fe0f}❤\u{fe0f}", 3, "❤\u{fe0f}…"),
            ("🇩🇪🇫🇷", 3, "🇩🇪…"),
            ("e\u{301}e\u{301}", 1, "…"),
        ] {
            assert_eq!(cut(text, width), want, "{text} in {width}");
        }
    }

    #[test]
    fn what_is_cut_takes_no_more_than_it_may() {
        let signs = [
            "a", "温", "\u{301}", "❤", "\u{fe0f}", "👩", "\u{200d}", "🇩", "각", "\u{5e9}",
        ];
        // All texts of four of these signs.
        for at in 0..signs.len().pow(4) {
            let digits = (0..4).map(|place| at / signs.len().pow(place) % signs.len());
            let text: String = digits.map(|digit| signs[digit]).collect();
            for width in 0..9 {
                let cut = cut(&text, width);
                assert!(of(&cut) <= width, "{text:?} in {width}: {cut:?}");
            }
        }
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
        assert_eq!(clean("温度 é"), "温度 é");
        for mark in ["\u{200e}", "\u{200f}", "\u{61c}", "\u{2067}"] {
            assert_eq!(clean(mark), "\u{fffd}", "{mark:?} turns a line round");
        }
        assert_eq!(clean("a\u{2028}b\u{2029}c"), "a b c", "it stays one line");
    }
}
