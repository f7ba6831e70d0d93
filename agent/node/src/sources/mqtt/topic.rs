//! A row's key in the topic of its message: the levels for which the filter has a
//! wildcard.

/// What stands in `topic` for the wildcards of `filter`: the text of the one, of several
/// a list of texts; `None` where the topic does not fit. `#` stands for all that
/// follows, with its slashes.
pub(super) fn key(filter: &str, topic: &str) -> Option<String> {
    let mut found = Vec::new();
    let mut rest = Some(topic);
    for level in filter.split('/') {
        let text = rest?;
        if level == "#" {
            found.push(text.to_owned());
            rest = None;
            break;
        }
        let (this, more) = match text.split_once('/') {
            Some((this, more)) => (this, Some(more)),
            None => (text, None),
        };
        if level == "+" {
            found.push(this.to_owned());
        } else if level != this {
            return None;
        }
        rest = more;
    }
    if rest.is_some() || found.iter().any(String::is_empty) {
        return None;
    }
    match found.len() {
        0 => None,
        1 => found.pop(),
        _ => Some(serde_json::Value::from(found).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_where_the_filter_has_wildcards() {
        for (filter, topic, want) in [
            ("sites/+", "sites/d1", Some("d1")),
            ("sites/+/meta", "sites/d1/meta", Some("d1")),
            ("+/sites/+", "north/sites/d1", Some(r#"["north","d1"]"#)),
            ("sites/#", "sites/a/b", Some("a/b")),
            ("sites/+", "sites/", None),
            ("sites/+", "sites/a/b", None),
            ("sites/+", "rooms/a", None),
            ("sites/+/meta", "sites/d1", None),
            ("sites", "sites", None),
        ] {
            assert_eq!(key(filter, topic).as_deref(), want, "{filter} {topic}");
        }
    }
}
