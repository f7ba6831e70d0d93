//! Rust source as a flat list of tokens with their lines, and which of them are
//! test code. Comments are gone; strings are one token. Knows no rule.

use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token; a group gives an opening and a closing one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
    /// Index of the matching bracket, or of the token itself.
    pub(crate) close: usize,
    pub(crate) literal: bool,
    /// Inside an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) test: bool,
}

/// Splits a file into tokens.
///
/// # Errors
/// The file is no Rust: says at which line, if the lexer knows.
pub(crate) fn lex(source: &str) -> Result<Vec<Token>, String> {
    let stream = TokenStream::from_str(source)
        .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    mark_tests(&mut tokens);
    Ok(tokens)
}

fn push(tokens: &mut Vec<Token>, text: String, line: usize, literal: bool) {
    let close = tokens.len();
    tokens.push(Token {
        text,
        line,
        close,
        literal,
        test: false,
    });
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(ident) => push(tokens, ident.to_string(), line, false),
            TokenTree::Punct(punct) => push(tokens, punct.as_char().to_string(), line, false),
            TokenTree::Literal(literal) => push(tokens, literal.to_string(), line, true),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let start = tokens.len();
                push(tokens, open.to_owned(), line, false);
                flatten(group.stream(), tokens);
                let end = tokens.len();
                push(
                    tokens,
                    close.to_owned(),
                    group.span_close().end().line,
                    false,
                );
                tokens[start].close = end;
            }
        }
    }
}

fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = test_item_end(tokens, at) {
            tokens[at..=end]
                .iter_mut()
                .for_each(|token| token.test = true);
            at = end;
        }
        at += 1;
    }
}

/// The last token of the item that a test attribute at `at` stands on.
fn test_item_end(tokens: &[Token], at: usize) -> Option<usize> {
    if !is(tokens, at, &["#", "["]) {
        return None;
    }
    let close = tokens[at + 1].close;
    is_test_attribute(&tokens[at + 2..close]).then(|| item_end(tokens, close + 1))
}

fn is_test_attribute(inside: &[Token]) -> bool {
    let words: Vec<&str> = inside.iter().map(|token| token.text.as_str()).collect();
    match words.as_slice() {
        ["cfg", rest @ ..] => rest.contains(&"test") && !rest.contains(&"not"),
        [.., last] => *last == "test",
        [] => false,
    }
}

/// The end of the item that starts at `at`: its `;`, or its `{}` block.
fn item_end(tokens: &[Token], at: usize) -> usize {
    let mut at = at;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at,
            "{" => return token.close,
            _ => at = token.close + 1,
        }
    }
    tokens.len() - 1
}

/// Whether the tokens from `at` on are these.
pub(crate) fn is(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    tokens.get(at..at + texts.len()).is_some_and(|found| {
        found
            .iter()
            .zip(texts)
            .all(|(token, text)| token.text == *text)
    })
}

/// A function with a body: its name, and the lines from `fn` to the last brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) test: bool,
}

/// Every function with a body, nested ones too.
pub(crate) fn functions(tokens: &[Token]) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let named = tokens.get(at + 1).filter(|name| name.text != "(");
        let (true, Some(name)) = (token.text == "fn" && !token.literal, named) else {
            continue;
        };
        let end = item_end(tokens, at + 1);
        if tokens[end].text == "}" {
            found.push(Function {
                name: name.text.clone(),
                line: token.line,
                lines: tokens[end].line - token.line + 1,
                test: token.test,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_hold_no_tokens() {
        let tokens = lex("// a.unwrap()\n/* b /* c */ */ let s = r#\"d.unwrap()\"#; 'e'").unwrap();
        let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(texts, ["let", "s", "=", "r#\"d.unwrap()\"#", ";", "'e'"]);
        assert_eq!(tokens[0].line, 2);
    }

    #[test]
    fn brackets_know_their_ends() {
        let tokens = lex("f(a, [b])").unwrap();
        assert_eq!((tokens[1].text.as_str(), tokens[1].close), ("(", 7));
        assert_eq!(tokens[7].text, ")");
    }

    #[test]
    fn test_code_is_what_stands_under_a_test_attribute() {
        for (name, source, want) in [
            ("plain", "fn x() {}", false),
            ("test", "#[test] fn x() {}", true),
            (
                "after another attribute",
                "#[test]\n#[should_panic]\nfn x() {}",
                true,
            ),
            ("of a runtime", "#[tokio::test] async fn x() {}", true),
            ("module", "#[cfg(test)] mod t { fn x() {} }", true),
            (
                "all of",
                "#[cfg(all(test, unix))] mod t { fn x() {} }",
                true,
            ),
            ("not", "#[cfg(not(test))] mod t { fn x() {} }", false),
            ("after a test", "#[test] fn y() {} fn x() {}", false),
            (
                "after a test import",
                "#[cfg(test)] use a; fn x() {}",
                false,
            ),
        ] {
            let tokens = lex(source).unwrap();
            let x = tokens.iter().find(|token| token.text == "x").unwrap();
            assert_eq!(x.test, want, "{name}");
        }
    }

    #[test]
    fn functions_have_the_lines_of_their_bodies() {
        let source =
            "fn a(x: [u8; 2]) -> fn(u8) {\n}\ntrait T { fn b(); }\nfn c() { fn d() {\n\n} }";
        let found: Vec<(String, usize)> = functions(&lex(source).unwrap())
            .into_iter()
            .map(|function| (function.name, function.lines))
            .collect();
        let want = [("a", 2), ("c", 3), ("d", 3)].map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(found, want);
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        assert!(lex("fn a( {").is_err());
    }
}
