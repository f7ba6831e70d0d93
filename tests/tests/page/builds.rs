//! The agent is replaced while its page is open: by another build, whose page is another, and
//! by one with another log. What is shown is of one build and of one log.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use forebay_tests::process::{ANSWER_LIMIT, forebay_bin};
use forebay_tests::wait;
use serde_json::json;

use super::bare::{Bare, line};
use super::rig::pictures;
use super::served::now_us;

/// A sentence of the page, and the one that another build has in its place: as long.
const SENTENCE: [&[u8]; 2] = [b"Nothing on this page comes", b"Nothing on this leaf comes"];
const LIVE: &str = "document.querySelector('#connection').dataset.live === 'true'";
const ASKED: &str = "!document.querySelector('#renew').hidden";

/// Readings of the device, each second up to `before` seconds ago.
fn readings(device: &str, value: &str, count: i64, before: i64) -> String {
    let (mut lines, now) = (String::new(), now_us());
    for back in (0..count).rev() {
        let time = now - (before + back) * 1_000_000;
        line(&mut lines, device, "temperature", time, value);
    }
    lines
}

/// A build with another page: this one with a sentence changed.
fn another_build(bare: &Bare) -> PathBuf {
    let [ours, other] = SENTENCE;
    let mut bytes = fs::read(forebay_bin()).unwrap();
    let places: Vec<usize> = (0..=bytes.len() - ours.len())
        .filter(|at| bytes[*at..].starts_with(ours))
        .collect();
    assert!(!places.is_empty(), "the program has its page in it");
    for at in places {
        bytes[at..at + other.len()].copy_from_slice(other);
    }
    let file = bare.agent.path("another-build");
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// The page of an agent that has these readings, with its stream.
fn live(all: &[String]) -> Bare {
    let mut bare = Bare::start();
    all.iter().for_each(|lines| bare.ingest(lines));
    bare.open();
    bare.browser.until("the stream is open", LIVE);
    bare
}

/// How often the page itself was asked for.
fn loads(bare: &Bare) -> usize {
    let (address, requests) = (bare.agent.address(), bare.browser.requests());
    requests.iter().filter(|asked| **asked == address).count()
}

/// Until the page has asked the agent so often.
fn asks_on(bare: &mut Bare, times: usize) {
    let status = |bare: &Bare| {
        let requests = bare.browser.requests();
        let status = requests.iter().filter(|asked| asked.ends_with("/status"));
        status.count()
    };
    let before = status(bare);
    wait::until("the page asks on", ANSWER_LIMIT, || {
        bare.browser.eval("0");
        let asked = status(bare) - before;
        (asked >= times)
            .then_some(())
            .ok_or(format!("{asked} times"))
    });
}

#[test]
fn a_page_of_another_build_loads_itself_anew_once() {
    let boiler = readings("boiler", "20.5", 5, 0);
    let mut bare = live(&[boiler, readings("pump", "30.5", 5, 0)]);
    bare.browser
        .eval("document.querySelector('tr.channel[data-device=pump] .pick').click()");
    bare.browser
        .eval("document.querySelector('#ranges input[value=\"15m\"]').click()");
    let chosen = "document.querySelectorAll('.chart[data-device=pump]').length === 1 && \
                  Number(document.querySelector('.chart').dataset.points) === 5 && \
                  document.querySelector('#ranges input:checked').value === '15m'";
    bare.browser.until("fifteen minutes of the pump", chosen);
    assert_eq!(loads(&bare), 1);

    let other = another_build(&bare);
    bare.agent.dies();
    bare.agent.starts(&other);
    let its_own = "document.body.innerText.includes('Nothing on this leaf comes')";
    bare.browser.until("its page is shown", its_own);
    bare.browser.until("the stream is open again", LIVE);
    bare.browser.until("the same is chosen", chosen);
    asks_on(&mut bare, 2);
    assert_eq!(loads(&bare), 2);
    assert_eq!(bare.browser.eval(ASKED), false);
}

/// As behind something that keeps an old page: what the agent has never comes.
const STAYS_OLD: &str = "(() => { const real = fetch; window.fetch = async (...asked) => { \
     const { body, status, headers } = await real(...asked); \
     const changed = new Headers(headers); changed.set('Forebay-Page', '0123456789abcdef'); \
     return new Response(body, { status, headers: changed }); }; })()";

#[test]
fn a_page_that_stays_old_says_so_and_does_not_load_itself_again() {
    let mut bare = Bare::start();
    bare.ingest(&readings("boiler", "20.5", 5, 0));
    let script = json!({ "source": STAYS_OLD });
    bare.browser
        .call("Page.addScriptToEvaluateOnNewDocument", &script);
    bare.open();
    bare.browser.until("the page asks to be loaded", ASKED);
    bare.browser.until("it goes on with what it has", LIVE);
    asks_on(&mut bare, 2);
    assert_eq!(loads(&bare), 2);
    pictures(&mut bare.browser, "renew");
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
    bare.browser
        .eval("document.querySelector('#renew-now').focus()");
    bare.browser.press("Enter");
    wait::until("the button loads it", ANSWER_LIMIT, || {
        bare.browser.eval("0");
        let loads = loads(&bare);
        (loads == 3).then_some(()).ok_or(format!("{loads} times"))
    });
    bare.browser.until("and it asks again", ASKED);
    assert_eq!(loads(&bare), 3);
}

/// The agent was replaced between the HTML and its parts.
#[test]
fn a_page_whose_parts_are_gone_loads_itself_anew_once() {
    let mut bare = Bare::start();
    let blocked = json!({ "urls": ["*/series.js"] });
    bare.browser.call("Network.setBlockedURLs", &blocked);
    bare.open();
    bare.browser.until("the page asks to be loaded", ASKED);
    assert_eq!(loads(&bare), 2);
    bare.browser
        .call("Network.setBlockedURLs", &json!({ "urls": [] }));
    bare.browser
        .eval("document.querySelector('#renew-now').click()");
    let works = "/^Waiting for a first reading/.test(\
                 document.querySelector('#connection').textContent)";
    bare.browser.until("all of it is there", works);
    assert_eq!(loads(&bare), 3);
}

/// Looks at each frame whether figures of both logs are to be seen.
const WATCH: &str = "(() => { window.mixed = []; const look = () => { \
     const text = document.querySelector('main').innerText; \
     if (text.includes('20.5') && text.includes('50.5')) mixed.push(text); \
     requestAnimationFrame(look); }; look(); })()";

#[test]
fn what_is_shown_is_of_one_log() {
    let boiler = readings("boiler", "20.5", 5, 100);
    let mut bare = live(&[boiler, readings("gone", "20.5", 5, 100)]);
    bare.browser.eval(WATCH);
    bare.browser
        .eval("document.querySelectorAll('.chart summary').forEach((summary) => summary.click())");
    // So that the stream is at a place which the next log does not have.
    bare.ingest(&readings("boiler", "20.5", 60, 20));
    let points = |count: u32| {
        format!(
            "Number(document.querySelector('.chart[data-device=boiler]').dataset.points) === {count}"
        )
    };
    bare.browser.until("all of it is drawn", &points(65));
    bare.browser.eval("document.querySelector('.plot').focus()");
    bare.browser.press("End");
    let read = "document.querySelector('.readout').textContent.includes('20.5')";
    assert_eq!(bare.browser.eval(read), true, "the cursor is on a reading");

    bare.agent.dies();
    fs::remove_dir_all(bare.agent.path("data")).unwrap();
    bare.agent.starts(forebay_bin());
    bare.ingest(&readings("boiler", "50.5", 7, 0));
    let rows = "document.querySelectorAll('tr.device').length === 1 && \
                !document.querySelector('main').innerText.includes('20.5')";
    bare.browser.until("nothing of the log before", rows);
    bare.browser.until("the stream is open again", LIVE);
    bare.browser.until("the new log is drawn", &points(7));
    bare.ingest(&readings("boiler", "50.5", 1, 0));
    bare.browser.until("and goes on", &points(8));
    assert_eq!(bare.browser.eval("mixed"), json!([]));
    assert_eq!(loads(&bare), 1, "the page is the same");
}
