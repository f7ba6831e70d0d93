//! Keys as events of the protocol.

use serde_json::{Value, json};

/// Name, Windows key code, and the text that it types.
const NAMED: [(&str, u32, &str); 10] = [
    ("Tab", 9, ""),
    ("Enter", 13, "\r"),
    ("Escape", 27, ""),
    (" ", 32, " "),
    ("End", 35, ""),
    ("Home", 36, ""),
    ("ArrowLeft", 37, ""),
    ("ArrowUp", 38, ""),
    ("ArrowRight", 39, ""),
    ("ArrowDown", 40, ""),
];

/// Down and up.
pub(super) fn events(key: &str) -> [Value; 2] {
    let named = NAMED.iter().find(|(name, _, _)| *name == key);
    let typed = key.chars().next().unwrap_or(' ');
    let (code, text) = named.map_or_else(
        || (u32::from(typed.to_ascii_uppercase()), key),
        |(_, code, text)| (*code, *text),
    );
    let event = |kind: &str| {
        let mut event = json!({
            "type": kind, "key": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code,
        });
        if named.is_some() && key != " " {
            event["code"] = json!(key);
        }
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = json!(text);
        }
        event
    };
    [event("keyDown"), event("keyUp")]
}
