//! Topic filters: `+` is one level, `#` at the end all that follow, and
//! `$share/GROUP/` shares the rest among the clients of a group.

/// The group of a shared filter, and what it takes.
pub(super) fn shared(filter: &str) -> (Option<&str>, &str) {
    let split = filter
        .strip_prefix("$share/")
        .and_then(|rest| rest.split_once('/'));
    split.map_or((None, filter), |(group, filter)| (Some(group), filter))
}

/// Whether a filter, without its group, takes a topic.
pub(super) fn takes(filter: &str, topic: &str) -> bool {
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        let level = levels.next();
        match wanted {
            "#" => return true,
            "+" if level.is_some() => {}
            wanted if level == Some(wanted) => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_by_name() {
        for (filter, topic, right) in [
            ("a/b", "a/b", true),
            ("a/b", "a/c", false),
            ("a/+", "a/b", true),
            ("a/+", "a", false),
            ("a/+", "a/b/c", false),
            ("a/#", "a/b/c", true),
            ("a/#", "a", true),
            ("+/b", "a/b", true),
            ("#", "a/b", true),
            ("a", "a/b", false),
        ] {
            assert_eq!(takes(filter, topic), right, "{filter} {topic}");
        }
        assert_eq!(shared("$share/g/a/#"), (Some("g"), "a/#"));
        assert_eq!(shared("a/#"), (None, "a/#"));
    }
}
