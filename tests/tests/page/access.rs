//! Without a mouse, without sight, in either scheme: every control is reached by keys, has a
//! name and shows its focus; texts stand out from their ground.

use forebay_tests::process::ANSWER_LIMIT;
use forebay_tests::wait;

use super::rig::{LOOKS, Rig};

/// What can be worked with and is to be seen.
const CONTROLS: &str = "[...document.querySelectorAll('a[href], button, input, select, summary, \
     [tabindex=\"0\"]')].filter((node) => node.checkVisibility() && \
     !(node.type === 'radio' && !node.checked))";
/// Roles that need a name.
const NAMED: [&str; 13] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "radio",
    "radiogroup",
    "slider",
    "region",
    "table",
    "form",
    "listbox",
    "checkbox",
];
const TABS_MAX: usize = 200;

fn started() -> Rig {
    let mut rig = Rig::start();
    let drawn = "document.querySelectorAll('.chart').length >= 2 && \
                 Number(document.querySelector('.chart').dataset.points) > 5 && \
                 document.querySelectorAll('#ledger-rows tr').length === 2";
    rig.until("both devices are shown", drawn);
    rig
}

/// Contrast of each text with the ground behind it, by WCAG; those below 4.5.
const CONTRAST: &str = r"(() => {
  const channels = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest('noscript, option')) continue;
    const [a, b] = [light(channels(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  return low;
})()";

#[test]
fn every_control_is_reached_by_keys_has_a_name_and_shows_its_focus() {
    let mut rig = started();
    names(&mut rig);
    tabs(&mut rig);
    keys(&mut rig);
    for (kind, look) in LOOKS {
        rig.browser.look(look);
        let low = rig.browser.eval(CONTRAST);
        assert_eq!(low, serde_json::json!([]), "{kind}");
    }
}

fn names(rig: &mut Rig) {
    let tree = rig.browser.accessible();
    for (role, name) in &tree {
        let needs = NAMED.contains(&role.as_str());
        assert!(!needs || !name.trim().is_empty(), "a {role} has no name");
    }
    for role in [
        "main",
        "banner",
        "contentinfo",
        "slider",
        "combobox",
        "radio",
        "table",
        "status",
    ] {
        let there = tree.iter().any(|(is, _)| is == role);
        assert!(there, "no {role}: {tree:?}");
    }
    let ids = "[...document.querySelectorAll('[id]')].map((node) => node.id)\
               .filter((id, at, all) => all.indexOf(id) !== at)";
    assert_eq!(
        rig.browser.eval(ids),
        serde_json::json!([]),
        "ids of two elements"
    );
    let levels = "[...document.querySelectorAll('h1, h2, h3')].map((node) => \
                  Number(node.tagName[1])).every((level, at, all) => \
                  at === 0 ? level === 1 : level <= all[at - 1] + 1)";
    assert_eq!(
        rig.browser.eval(levels),
        true,
        "a level of headings is left out"
    );
}

/// The way of the Tab key through the whole page.
fn tabs(rig: &mut Rig) {
    rig.browser
        .eval("window.met = new Set(); document.activeElement.blur(); true");
    let all = format!("{CONTROLS}.every((node) => met.has(node))");
    for _ in 0..TABS_MAX {
        rig.browser.press("Tab");
        let outlined = "(() => { const node = document.activeElement; \
             if (node === document.body) return 'body'; met.add(node); \
             const drawn = node.type === 'radio' ? node.nextElementSibling : node; \
             const style = getComputedStyle(drawn); \
             return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 ? 'seen' \
             : node.outerHTML.slice(0, 120); })()";
        let seen = rig.browser.eval(outlined);
        let seen = seen.as_str().unwrap();
        assert!(
            ["body", "seen"].contains(&seen),
            "its focus is not shown: {seen}"
        );
        if rig.browser.eval(&all) == true {
            return;
        }
    }
    let missed = format!(
        "{CONTROLS}.filter((node) => !met.has(node)).map((node) => node.outerHTML.slice(0, 120))"
    );
    panic!("Tab does not reach {}", rig.browser.eval(&missed));
}

/// Ranges, the chart's cursor, its table and the choice of a channel, by keys alone.
fn keys(rig: &mut Rig) {
    rig.browser
        .eval("document.querySelector('#ranges input:checked').focus()");
    rig.browser.press("ArrowRight");
    let second = "document.querySelector('#ranges input:checked').value === '15m'";
    rig.until("the next range is chosen", second);
    rig.browser.press("ArrowLeft");
    let drawn = "Number(document.querySelector('.chart').dataset.points) > 5";
    rig.until("the chart is drawn again", drawn);

    rig.browser.eval("document.querySelector('.plot').focus()");
    let read = "document.querySelector('.readout').textContent";
    let first = "document.querySelector('.plot').getAttribute('aria-valuenow') === '0'";
    // Until the older readings have come, the first point is one of the newest.
    wait::until("the cursor is on the first point", ANSWER_LIMIT, || {
        rig.browser.press("Home");
        let is_first = rig.browser.eval(first) == true;
        is_first.then_some(()).ok_or("it is on another".to_owned())
    });
    rig.browser.press("ArrowRight");
    let next = "document.querySelector('.plot').getAttribute('aria-valuenow') === '1'";
    rig.until("the cursor is on the next", next);
    let text = rig.browser.eval(read);
    let spoken = rig
        .browser
        .eval("document.querySelector('.plot').getAttribute('aria-valuetext')");
    assert_eq!(text, spoken, "what is shown is what is spoken");

    rig.browser
        .eval("document.querySelector('.chart summary').focus()");
    rig.browser.press("Enter");
    rig.until(
        "its table is open",
        "document.querySelector('.chart details').open",
    );

    rig.browser
        .eval("document.querySelector('tr.channel[data-device=pump] .pick').focus()");
    rig.browser.press("Enter");
    let one = "document.querySelectorAll('.chart[data-device=pump]').length === 1";
    rig.until("that channel is shown alone", one);
}
