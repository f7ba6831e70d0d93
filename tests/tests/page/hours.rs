//! A page that is open for hours: what it holds has a bound, and it goes on by itself after
//! its computer slept, was looked away from, or had its clock set. Time is driven by hand.

use serde_json::json;

use super::bare::Bare;

const HOURS: &str = include_str!("hours.js");
/// After the first, in which all that the page keeps has come to its bound.
const HOURS_MORE: u32 = 3;
/// What the browser's own caches and what it compiles may take, bytes.
const HEAP_SLACK: u64 = 1_500_000;
const LIVE: &str = "document.querySelector('#connection').dataset.live === 'true'";
const FRESH: &str = "[...document.querySelectorAll('tr.channel .state')].every((one) => one.dataset.is === 'fresh')";

/// What a page holds.
#[derive(Debug)]
struct Held {
    heap: u64,
    nodes: u64,
    listeners: u64,
    timers: u64,
}

fn opened() -> Bare {
    let mut bare = Bare::start();
    let script = json!({ "source": HOURS });
    bare.browser
        .call("Page.addScriptToEvaluateOnNewDocument", &script);
    bare.open();
    bare.browser.eval("hours.go(60)");
    let both = "document.querySelectorAll('.chart').length === 2 && \
                document.querySelector('#connection').dataset.live === 'true'";
    assert_eq!(bare.browser.eval(both), true);
    bare
}

fn held(bare: &mut Bare) -> Held {
    // What finalizers let go is collected the second time.
    for _ in 0..2 {
        bare.browser.call("HeapProfiler.collectGarbage", &json!({}));
        bare.browser.eval("0");
    }
    let dom = bare.browser.call("Memory.getDOMCounters", &json!({}));
    let heap = bare.browser.call("Runtime.getHeapUsage", &json!({}));
    let number = |value: &serde_json::Value| value.as_f64().expect("a number") as u64;
    Held {
        heap: number(&heap["usedSize"]),
        nodes: number(&dom["nodes"]),
        listeners: number(&dom["jsEventListeners"]),
        timers: number(&bare.browser.eval("hours.timers.size")),
    }
}

#[test]
fn what_a_page_holds_does_not_grow_with_the_hours() {
    let mut bare = opened();
    bare.browser.eval("hours.eventful()");
    bare.browser.forget();
    let first = held(&mut bare);
    for _ in 0..HOURS_MORE {
        bare.browser.eval("hours.eventful()");
        // What the test heard of it is kept by the browser as well.
        bare.browser.forget();
    }
    let last = held(&mut bare);
    println!("{first:?} then {last:?}");
    assert!(last.heap <= first.heap + HEAP_SLACK, "{first:?} {last:?}");
    assert!(last.nodes <= first.nodes + 50, "{first:?} {last:?}");
    assert!(last.listeners <= first.listeners, "{first:?} {last:?}");
    assert!(last.timers <= first.timers, "{first:?} {last:?}");
    let most = bare.browser.eval("hours.seen.streamsMost");
    assert_eq!(most, 1, "streams at the same time");
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
}

/// Away for a night: each try to reach the agent leaves nothing behind.
#[test]
fn what_a_page_holds_does_not_grow_while_the_agent_is_away() {
    let mut bare = opened();
    bare.browser.eval("hours.agent.away = true; hours.cut()");
    bare.browser.eval("hours.go(3600, 15)");
    bare.browser.forget();
    let first = held(&mut bare);
    bare.browser.eval("hours.go(8 * 3600, 15)");
    bare.browser.forget();
    let last = held(&mut bare);
    println!("{first:?} then {last:?}");
    assert!(last.heap <= first.heap + HEAP_SLACK, "{first:?} {last:?}");
    assert!(last.nodes <= first.nodes, "{first:?} {last:?}");
    assert!(last.listeners <= first.listeners, "{first:?} {last:?}");
    assert!(last.timers <= first.timers, "{first:?} {last:?}");
    bare.browser
        .eval("hours.agent.away = false; hours.go(30, 1)");
    assert_eq!(bare.browser.eval(LIVE), true);
}

/// As many streams are followed as the config lets: what there is so far is drawn.
#[test]
fn a_chart_is_drawn_without_a_stream_and_says_so() {
    let mut bare = opened();
    bare.browser.eval("hours.agent.busy = true; hours.cut()");
    bare.browser
        .eval("hours.choose('tr.channel .pick').then(() => hours.go(30, 1))");
    let points = "Number(document.querySelector('.chart').dataset.points)";
    assert!(bare.browser.eval(points).as_u64() > Some(1000));
    let silent = "document.querySelector('.chart').dataset.silent";
    assert_eq!(bare.browser.eval(silent), "0", "nobody listens");
    let said = "document.querySelector('#connection').textContent";
    let said = bare.browser.eval(said);
    let said = said.as_str().unwrap();
    assert!(said.starts_with("Live readings are interrupted"), "{said}");
    bare.browser
        .eval("hours.agent.busy = false; hours.go(30, 1)");
    assert_eq!(bare.browser.eval(LIVE), true);
}

/// An agent that takes longer than a question may: others do not pile up behind it.
#[test]
fn a_slow_agent_is_not_asked_again_before_it_has_answered() {
    let mut bare = opened();
    bare.browser
        .eval("hours.agent.slow = true; hours.go(40, 1)");
    let most = bare.browser.eval("hours.seen.waitingMost");
    // The status, and for the charts averages and windows.
    assert_eq!(most, 3, "questions at the same time");
    bare.browser
        .eval("hours.agent.slow = false; hours.go(30, 1)");
    assert_eq!(bare.browser.eval(LIVE), true);
    assert_eq!(bare.browser.eval(FRESH), true);
}

#[test]
fn a_page_that_nobody_looks_at_asks_nothing_and_goes_on_when_it_is_seen() {
    let mut bare = opened();
    bare.browser.eval("hours.hide(true)");
    let asked = "JSON.stringify(hours.seen.asked)";
    let before = bare.browser.eval(asked);
    bare.browser.eval("hours.go(3600)");
    assert_eq!(bare.browser.eval(asked), before);
    assert_eq!(bare.browser.eval("hours.seen.streams.size"), 0);
    bare.browser.eval("hours.hide(false)");
    // Before what came meanwhile is there, the chart does not say that nothing came.
    assert_eq!(silent_in_five_seconds(&mut bare), json!([0, 0, 0, 0, 0]));
    assert_eq!(bare.browser.eval("hours.seen.streams.size"), 1);
    assert_eq!(bare.browser.eval(LIVE), true);
    assert_eq!(bare.browser.eval(FRESH), true);
}

/// Its stream is dead without having ended, and nothing came for the whole night.
#[test]
fn a_page_goes_on_at_once_after_its_computer_slept() {
    let mut bare = opened();
    let opened = bare.browser.eval("hours.seen.opened").as_u64().unwrap();
    bare.browser.eval("hours.sleep(8 * 3600)");
    assert_eq!(silent_in_five_seconds(&mut bare), json!([0, 0, 0, 0, 0]));
    assert_eq!(bare.browser.eval("hours.seen.opened"), opened + 1);
    assert_eq!(bare.browser.eval(LIVE), true);
    assert_eq!(bare.browser.eval(FRESH), true);
    let points = bare
        .browser
        .eval("Number(document.querySelector('.chart').dataset.points)");
    // Five minutes, and the window of the average before them.
    let points = points.as_u64().unwrap();
    assert!((1795..=1805).contains(&points), "{points} points");
}

/// How many silences the first chart has after each of five seconds.
fn silent_in_five_seconds(bare: &mut Bare) -> serde_json::Value {
    bare.browser.eval(
        "(async () => { const found = []; for (let at = 0; at < 5; at += 1) { \
         await hours.go(1, 1); \
         found.push(Number(document.querySelector('.chart').dataset.silent)); } \
         return found; })()",
    )
}

#[test]
fn a_page_goes_on_when_the_clock_of_its_computer_is_set() {
    for by in [-3600, 3600, -86_400] {
        let mut bare = opened();
        let asked = bare.browser.eval("hours.seen.asked.status");
        bare.browser
            .eval(&format!("hours.set({by}); hours.go(20, 1)"));
        let more = bare.browser.eval("hours.seen.asked.status").as_u64();
        let more = more.unwrap() - asked.as_u64().unwrap();
        assert!((8..=12).contains(&more), "{more} questions in 20 s, {by}");
        assert_eq!(bare.browser.eval(FRESH), true, "{by}");
        let silent = "document.querySelector('.chart').dataset.silent";
        assert_eq!(bare.browser.eval(silent), "0", "{by}");
    }
}

/// What is open, focused or read stays so while it is brought up to date.
#[test]
fn the_table_of_a_chart_keeps_its_focus_while_it_is_renewed() {
    let mut bare = opened();
    bare.browser
        .eval("document.querySelector('.chart summary').click(); hours.go(10, 1)");
    bare.browser
        .eval("document.querySelector('.figures-table').focus()");
    let before = "document.querySelector('.chart tbody th').textContent";
    let before = bare.browser.eval(before);
    bare.browser.eval("hours.go(120, 1)");
    let focus = "document.activeElement.className";
    assert_eq!(bare.browser.eval(focus), "scroll figures-table");
    let after = "document.querySelector('.chart tbody th').textContent";
    assert_ne!(bare.browser.eval(after), before, "its rows are new");
}
