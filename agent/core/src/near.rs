//! What a sentence offers to somebody who gave a name that there is not: the nearest of those
//! that there are, and the first of many. Knows nothing of what is named.

/// So near a word is when it was meant, of the few that there are; what is less near puzzles
/// more than it helps.
const WORD_NEAR: f64 = 0.75;
/// The same of a name that an operator or a device gave: of these many are alike.
const NAME_NEAR: f64 = 0.85;

/// ` (did you mean "x"?)` when something valid is near, else nothing.
#[must_use]
pub fn did_you_mean<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    offered(nearest(given, valid))
}

/// The same where names of devices or channels are valid.
#[must_use]
pub fn did_you_mean_name<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    offered(nearest_of(given, names, NAME_NEAR))
}

/// The valid word nearest to `given`, whatever their case, when it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_of(given, valid, WORD_NEAR)
}

fn offered(near: Option<&str>) -> String {
    near.map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"))
}

fn nearest_of<'a>(
    given: &str,
    valid: impl IntoIterator<Item = &'a str>,
    near: f64,
) -> Option<&'a str> {
    let given = given.to_lowercase();
    // Jaro-Winkler favours a common beginning, which fits typing errors in names.
    valid
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= near)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `a, b and 3 more`, where there are more than `most`; `None` where there is none.
#[must_use]
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.get(..most).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(most) {
        _ if names.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none() {
        for (given, want) in [
            ("tumblin", Some("tumbling")),
            ("slidng", Some("sliding")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(given, ["tumbling", "sliding"]), want, "{given}");
        }
        assert_eq!(
            did_you_mean("upsert", ["insert"]),
            " (did you mean \"insert\"?)"
        );
        assert_eq!(did_you_mean("zzz", ["insert"]), "");
    }

    #[test]
    fn a_name_that_was_typed_wrong_is_known_again() {
        for (given, names, want) in [
            ("Boiler", &["pump", "boiler"][..], Some("boiler")),
            ("boilr", &["pump", "boiler"], Some("boiler")),
            ("bioler", &["pump", "boiler"], Some("boiler")),
            ("boilxyz", &["pump", "boiler"], None),
            ("fan", &["pump", "boiler"], None),
            ("温度", &["温度計"], Some("温度計")),
            ("a", &["b"], None),
            ("", &["b"], None),
            (
                "dev-3999",
                &["dev-00999", "dev-03999", "dev-3990"],
                Some("dev-03999"),
            ),
            ("dev-3999", &["dev-0001"], None),
            ("0000000000000000", &["f0bea00000000002"], None),
        ] {
            let said = did_you_mean_name(given, names.iter().copied());
            assert_eq!(said, offered(want), "{given}");
        }
    }

    #[test]
    fn names_are_listed_up_to_a_limit() {
        let names = ["a", "b", "c", "d"];
        for (count, want) in [
            (0, None),
            (2, Some("a, b")),
            (3, Some("a, b, c")),
            (4, Some("a, b, c and 1 more")),
        ] {
            let listed = listed(names[..count].iter().copied(), 3);
            assert_eq!(listed.as_deref(), want, "{count}");
        }
    }
}
