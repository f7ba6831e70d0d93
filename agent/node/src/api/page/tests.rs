//! What a browser gets: complete, from here only, and with nothing inline.

use super::*;

fn text(name: &str) -> &'static str {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset = asset.unwrap_or_else(|| panic!("no part {name}"));
    std::str::from_utf8(asset.bytes).expect("text")
}

/// The texts between `start` and the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let rest = text.split(start).skip(1);
    rest.filter_map(|rest| rest.split(end).next()).collect()
}

/// The custom properties that a block of CSS defines.
fn defined(block: &str) -> Vec<&str> {
    let lines = block.lines().map(str::trim);
    let mut names: Vec<&str> = lines
        .filter(|line| line.starts_with("--"))
        .filter_map(|line| line.split(':').next())
        .collect();
    names.sort_unstable();
    names
}

/// Our own modules.
fn modules() -> impl Iterator<Item = &'static Asset> {
    let ours = |asset: &&Asset| asset.media_type == JS && !asset.name.starts_with("uPlot");
    ASSETS.iter().filter(ours)
}

#[test]
fn the_html_names_parts_that_are_there() {
    let named = between(INDEX, "{{assets}}/", "\"");
    assert_eq!(named.len(), 8, "{named:?}");
    for name in named {
        text(name);
    }
    assert!(!PAGE.0.contains("{{"), "a place was left open");
}

#[test]
fn modules_import_what_is_there_and_name_only_what_it_exports() {
    for asset in modules() {
        for import in between(text(asset.name), "import ", ";") {
            let (names, from) = import.split_once("from").expect("names from a module");
            let from = from.trim().trim_matches('"');
            let module = text(from.strip_prefix("./").expect("beside it"));
            let names = names.trim().trim_matches(['{', '}']).split(',');
            for name in names {
                let name = name.split_whitespace().next().expect("a name");
                let exports = ["function ", "async function ", "class ", "const "]
                    .map(|kind| format!("export {kind}{name}"));
                let found = exports.iter().any(|export| module.contains(export));
                assert!(found, "{} imports {name} from {from}", asset.name);
            }
        }
    }
}

#[test]
fn every_id_that_a_module_asks_for_is_in_the_html() {
    for asset in modules() {
        for id in between(text(asset.name), "byId(\"", "\"") {
            let there = INDEX.contains(&format!("id=\"{id}\""));
            assert!(there, "{} asks for #{id}", asset.name);
        }
    }
}

#[test]
fn each_control_of_the_html_has_a_name() {
    for tag in ["<select", "<input"] {
        for control in between(INDEX, tag, ">") {
            let id = between(control, "id=\"", "\"");
            let id = id.first().expect("an id");
            assert!(INDEX.contains(&format!("for=\"{id}\"")), "{control}");
        }
    }
    for section in between(INDEX, "<section", ">") {
        assert!(section.contains("aria-labelledby="), "{section}");
    }
}

#[test]
fn nothing_is_inline_and_nothing_from_elsewhere() {
    for inline in [
        "style=",
        "<style",
        "onclick",
        "onload",
        "javascript:",
        "<script>",
    ] {
        assert!(!INDEX.contains(inline), "{inline}");
    }
    let sheets = ["page.css", "dark.css", "uPlot.min.css"];
    for file in sheets.map(text).into_iter().chain([INDEX]) {
        for outside in ["http:", "https:", "url(", "@import", "//cdn"] {
            assert!(!file.contains(outside), "{outside}");
        }
    }
    for asset in modules() {
        // The name space of SVG is a name and no address.
        let own = text(asset.name).replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "innerHTML",
            "eval(",
            "new Function",
            "document.write",
        ] {
            assert!(!own.contains(word), "{} has {word}", asset.name);
        }
    }
}

#[test]
fn every_colour_is_defined_for_both_schemes() {
    let colours = |sheet| {
        let blocks = between(text(sheet), "color-scheme: ", "}");
        let [block] = blocks[..] else {
            panic!("{} blocks of colours in {sheet}", blocks.len())
        };
        defined(block)
    };
    assert_eq!(colours("page.css"), colours("dark.css"));
}

fn asked(tag: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(tag) = tag {
        headers.insert(header::IF_NONE_MATCH, tag.parse().expect("a header"));
    }
    headers
}

#[test]
fn parts_are_kept_and_the_html_is_asked_for_anew() {
    let version = &PAGE.1;
    let quoted = format!("\"{version}\"");
    let weak_list = format!("\"other\", {quoted}");
    for (name, tag, want) in [
        ("first", None, StatusCode::OK),
        ("another version", Some("\"other\""), StatusCode::OK),
        ("the same", Some(quoted.as_str()), StatusCode::NOT_MODIFIED),
        (
            "one of several",
            Some(weak_list.as_str()),
            StatusCode::NOT_MODIFIED,
        ),
    ] {
        let answer = answer(&asked(tag), version, "no-cache", HTML, b"x");
        assert_eq!(answer.status(), want, "{name}");
        let header = |name: HeaderName| answer.headers().get(name).cloned();
        assert_eq!(header(header::ETAG), quoted.parse().ok(), "{name}");
        assert_eq!(header(header::CONTENT_SECURITY_POLICY), POLICY.parse().ok());
    }
}

#[tokio::test]
async fn a_page_of_another_version_gets_only_what_loads_it_anew() {
    let old = "0123456789abcdef";
    for (name, version, part_name, status, keep) in [
        (
            "ours",
            &*PAGE.1,
            "main.js",
            StatusCode::OK,
            "public, max-age=31536000, immutable",
        ),
        (
            "ours, its first",
            &*PAGE.1,
            RENEW,
            StatusCode::OK,
            "public, max-age=31536000, immutable",
        ),
        ("another's first", old, RENEW, StatusCode::OK, "no-store"),
        ("another's", old, "main.js", StatusCode::NOT_FOUND, ""),
        ("none", &*PAGE.1, "other.js", StatusCode::NOT_FOUND, ""),
    ] {
        let path = Path((version.to_owned(), part_name.to_owned()));
        let answer = part(path, asked(None)).await;
        assert_eq!(answer.status(), status, "{name}");
        let kept = answer.headers().get(header::CACHE_CONTROL);
        let kept = kept.map_or("", |kept| kept.to_str().expect("text"));
        assert_eq!(kept, keep, "{name}");
    }
}

#[test]
fn the_part_that_loads_the_page_anew_is_the_first_script() {
    let first = INDEX.split("<script").nth(1).expect("a script");
    assert!(first.contains(RENEW), "{first}");
}
