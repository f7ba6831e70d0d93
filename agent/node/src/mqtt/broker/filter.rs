//! Topic filters of MQTT: `+` is one level, `#` at the end all that follow.

/// True for a filter that can be subscribed to.
pub(super) fn is_filter(filter: &str) -> bool {
    if filter.is_empty() || filter.contains('\0') {
        return false;
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let last = levels.peek().is_none();
        let fits = match level {
            "#" => last,
            "+" => true,
            level => !level.contains(['+', '#']),
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether a valid filter takes a topic. Topics that start with `$` are taken
/// only by filters that say so.
pub(super) fn matches(topic: &str, filter: &str) -> bool {
    if topic.starts_with('$') && !filter.starts_with('$') {
        return false;
    }
    let mut topic = topic.split('/');
    for level in filter.split('/') {
        match (level, topic.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(part)) if level == part => {}
            (_, _) => return false,
        }
    }
    topic.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_by_name() {
        for (filter, fits) in [
            ("", false),
            ("a", true),
            ("a/b", true),
            ("+", true),
            ("#", true),
            ("a/+/b", true),
            ("a/#", true),
            ("a/#/b", false),
            ("a#", false),
            ("a+", false),
            ("a/b+/c", false),
            ("/", true),
        ] {
            assert_eq!(is_filter(filter), fits, "{filter}");
        }
    }

    #[test]
    fn matches_by_name() {
        for (topic, filter, fits) in [
            ("a/b", "a/b", true),
            ("a/b", "a/+", true),
            ("a", "a/+", false),
            ("a/b/c", "a/+", false),
            ("a/b/c", "a/#", true),
            ("a", "a/#", true),
            ("b", "a/#", false),
            ("a/b/c", "+/+/+", true),
            ("a/b", "#", true),
            ("$SYS/x", "#", false),
            ("$SYS/x", "+/x", false),
            ("$SYS/x", "$SYS/#", true),
            ("a//b", "a/+/b", true),
            ("é/b", "+/b", true),
            ("forebay/v1/g/data/s/0", "forebay/v1/+/data/+/+", true),
            ("forebay/v1/upstream", "forebay/v1/+/data/+/+", false),
        ] {
            assert_eq!(matches(topic, filter), fits, "{topic} {filter}");
        }
    }
}
