//! Which form of an answer a client wants, by its header Accept (RFC 9110, 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use super::problem::{Kind, Problem, shown};

/// Forms of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
}

/// The form that is wanted most of those that there are; JSON where all are as good.
///
/// # Errors
/// When none is.
pub(super) fn form(headers: &HeaderMap, has_csv: bool) -> Result<Form, Problem> {
    let values = headers.get_all(ACCEPT).iter();
    let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    if texts.is_empty() {
        return Ok(Form::Json);
    }
    let ranges: Vec<&str> = texts.iter().flat_map(|text| text.split(',')).collect();
    let json = weight(&ranges, "application", "json");
    let csv = weight(&ranges, "text", "csv");
    match (json, csv) {
        (json, csv) if has_csv && csv > json => Ok(Form::Csv),
        (1.., _) => Ok(Form::Json),
        (0, _) => {
            let there = if has_csv {
                "application/json or text/csv"
            } else {
                "application/json"
            };
            let accept = shown(&texts.join(","));
            let detail = format!("\"Accept: {accept}\" lets no form that there is: accept {there}");
            Err(Problem::new(Kind::NotAcceptable, detail))
        }
    }
}

/// How much a type is wanted, in thousandths, by the range that names it best.
fn weight(ranges: &[&str], kind: &str, subtype: &str) -> u32 {
    let mut best = (0, 0);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let Some((of, sub)) = parts.next().and_then(|name| name.split_once('/')) else {
            continue;
        };
        let named = |given: &str, name: &str| given.eq_ignore_ascii_case(name);
        let nearness = match (of, sub) {
            ("*", "*") => 1,
            (of, "*") if named(of, kind) => 2,
            (of, sub) if named(of, kind) && named(sub, subtype) => 3,
            _ => continue,
        };
        let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let q = q
            .map_or(Some(1.0), |q| q.parse::<f64>().ok())
            .unwrap_or(0.0);
        if nearness > best.0 {
            best = (nearness, (q.clamp(0.0, 1.0) * 1000.0) as u32);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_form_that_is_wanted_most() {
        for (accept, both, json_only) in [
            (None, Some(Form::Json), Some(Form::Json)),
            (Some("*/*"), Some(Form::Json), Some(Form::Json)),
            (Some("text/csv"), Some(Form::Csv), None),
            (Some("Text/CSV"), Some(Form::Csv), None),
            (Some("application/json"), Some(Form::Json), Some(Form::Json)),
            (
                Some("text/csv, */*;q=0.1"),
                Some(Form::Csv),
                Some(Form::Json),
            ),
            (
                Some("text/csv;q=0.2, application/json;q=0.9"),
                Some(Form::Json),
                Some(Form::Json),
            ),
            (Some("text/*"), Some(Form::Csv), None),
            (Some("text/html"), None, None),
            (Some("application/json;q=0, text/csv;q=0"), None, None),
            (Some("application/json;q=x"), None, None),
            (Some(""), None, None),
            (
                Some("text/html,application/xhtml+xml,*/*;q=0.8"),
                Some(Form::Json),
                Some(Form::Json),
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(form(&headers, true).ok(), both, "{accept:?}");
            assert_eq!(form(&headers, false).ok(), json_only, "{accept:?}");
        }
    }
}
