//! What operators call devices. Knows only what the config and imports gave names to:
//! any other device is called by its uid.

use std::collections::BTreeMap;

use forebay_wire::ids::DeviceUid;

/// Names that operators gave to devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<DeviceUid, String>);

impl Names {
    /// The device that `text` names: a given name, or sixteen hex digits.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<DeviceUid> {
        let named = self.0.iter().find(|(_, name)| *name == text);
        named.map(|(uid, _)| *uid).or_else(|| parse_uid(text))
    }

    /// What to call a device.
    #[must_use]
    pub fn name(&self, uid: DeviceUid) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Names that a sentence lists.
const NAMES_SHOWN_MAX: usize = 8;
/// Signs by which a name may differ, in one place, from one that was meant.
const TYPED_WRONG_MAX: usize = 2;

/// `a, b and 3 more`; `None` where there is none.
#[must_use]
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.get(..NAMES_SHOWN_MAX).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(NAMES_SHOWN_MAX) {
        _ if names.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown} and {more} more")),
    }
}

/// ` (did you mean "x"?)` where one of the names was meant, else nothing.
#[must_use]
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let meant = names.find(|name| is_meant(given, name));
    meant.map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"))
}

/// Whether both differ by case, or in one place by few signs. Looks at each sign a few times
/// only: there may be thousands of names.
fn is_meant(given: &str, name: &str) -> bool {
    let [given, name] = [given, name].map(|text| text.to_lowercase().chars().collect::<Vec<_>>());
    let same = given.iter().zip(&name).take_while(|(a, b)| a == b).count();
    let (given, name) = (&given[same..], &name[same..]);
    let (backwards, other) = (given.iter().rev(), name.iter().rev());
    let end = backwards.zip(other).take_while(|(a, b)| a == b).count();
    let differs = given.len().max(name.len()) - end;
    // A name of which nothing else stays was not typed wrong.
    differs <= TYPED_WRONG_MAX && same + end > differs
}

/// Reads a uid as it is written: sixteen hex digits.
#[must_use]
pub fn parse_uid(text: &str) -> Option<DeviceUid> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(text, 16).ok())??;
    Some(DeviceUid(value.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_typed_wrong_in_one_place_is_known_again() {
        for (given, name, want) in [
            ("dev-3999", "dev-03999", true),
            ("Boiler", "boiler", true),
            ("biolr", "boiler", false),
            ("bioler", "boiler", true),
            ("boile", "boiler", true),
            ("boi", "boiler", false),
            ("温度", "温度計", true),
            ("a", "b", false),
            ("", "b", false),
            ("pump", "boiler", false),
        ] {
            assert_eq!(is_meant(given, name), want, "{given} for {name}");
        }
        let names = ["pump", "boiler"];
        assert_eq!(did_you_mean("boilr", names), " (did you mean \"boiler\"?)");
        assert_eq!(did_you_mean("fan", names), "");
    }

    #[test]
    fn names_are_listed_up_to_a_limit() {
        let names: Vec<String> = (0..NAMES_SHOWN_MAX + 1).map(|n| n.to_string()).collect();
        for (count, want) in [
            (0, None),
            (1, Some("0")),
            (NAMES_SHOWN_MAX, Some("0, 1, 2, 3, 4, 5, 6, 7")),
            (
                NAMES_SHOWN_MAX + 1,
                Some("0, 1, 2, 3, 4, 5, 6, 7 and 1 more"),
            ),
        ] {
            let listed = listed(names[..count].iter().map(String::as_str));
            assert_eq!(listed.as_deref(), want, "{count}");
        }
    }
}
