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
    let meant = names
        .into_iter()
        .filter_map(|name| Some((differs(given, name)?, name)));
    let nearest = meant.min_by_key(|(signs, _)| *signs);
    nearest.map_or_else(String::new, |(_, name)| {
        format!(" (did you mean \"{name}\"?)")
    })
}

/// By how many signs both differ, in one place and whatever their case; `None` where neither
/// was meant. Looks at each sign a few times only: there may be thousands of names.
fn differs(given: &str, name: &str) -> Option<usize> {
    let [given, name] = [given, name].map(|text| text.to_lowercase().chars().collect::<Vec<_>>());
    let same = given.iter().zip(&name).take_while(|(a, b)| a == b).count();
    let (given, name) = (&given[same..], &name[same..]);
    let (backwards, other) = (given.iter().rev(), name.iter().rev());
    let end = backwards.zip(other).take_while(|(a, b)| a == b).count();
    let differs = given.len().max(name.len()) - end;
    // A name of which little else stays was not typed wrong.
    (differs <= TYPED_WRONG_MAX && same + end > differs).then_some(differs)
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
            ("dev-3999", "dev-03999", Some(1)),
            ("Boiler", "boiler", Some(0)),
            ("boile", "boiler", Some(1)),
            ("bioler", "boiler", Some(2)),
            ("boilxyz", "boiler", None),
            ("boi", "boiler", None),
            ("温度", "温度計", Some(1)),
            ("a", "b", None),
            ("", "b", None),
            ("pump", "boiler", None),
        ] {
            assert_eq!(differs(given, name), want, "{given} for {name}");
        }
        let names = ["pump", "boiler"];
        assert_eq!(did_you_mean("boilr", names), " (did you mean \"boiler\"?)");
        assert_eq!(did_you_mean("fan", names), "");
        let nearest = did_you_mean("dev-3999", ["dev-00999", "dev-03999", "dev-3990"]);
        assert_eq!(nearest, " (did you mean \"dev-03999\"?)");
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
