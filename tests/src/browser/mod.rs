//! A headless Chromium of our own for a test: own profile, no port, ended with its handle.
//! It is driven by the DevTools protocol over two pipes: one JSON object, one zero byte.
//!
//! Always holds: a call has its answer within [`CALL_MAX`] or the test fails; all that the
//! page says on its console, throws or asks the network for is kept in order.
//! Bound: [`HEARD_MAX`] events. Knows nothing of the page that it shows.

mod key;
mod pipe;

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Running;
use crate::wait;

use self::pipe::Pipe;

/// How long the browser may take to answer.
pub const CALL_MAX: Duration = Duration::from_secs(60);
/// Events that are kept for the questions below.
const HEARD_MAX: usize = 20_000;
/// Names under which Chromium is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// CSS pixels.
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    running: Running,
    session: String,
    next_id: u64,
    heard: VecDeque<Value>,
    // Removed last.
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty page.
    ///
    /// # Panics
    /// When there is no Chromium; says how to get it.
    #[must_use]
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let dir = profile.path();
        pipe::make(dir);
        let mut command = Command::new("sh");
        // Chromium reads from 3 and writes to 4.
        let script = "exec \"$@\" 3<to-browser 4>from-browser";
        command.args(["-c", script, "sh", &program()]);
        let profile_arg = format!("--user-data-dir={}", dir.join("profile").display());
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            // Root has no sandbox, and the page is our own.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--hide-scrollbars",
            "--no-first-run",
            &profile_arg,
            "about:blank",
        ]);
        command.current_dir(dir);
        let running = Running::group("chromium", command, dir);
        let pipe = Pipe::open(dir);
        let mut browser = Self {
            pipe,
            running,
            session: String::new(),
            next_id: 0,
            heard: VecDeque::new(),
            _profile: profile,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let of = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &of);
        self.session = session["sessionId"].as_str().expect("a session").into();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// One call of the protocol.
    ///
    /// # Panics
    /// When it fails, or has no answer in time.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.try_call(method, params)
            .unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`Browser::call`].
    ///
    /// # Errors
    /// The browser's, such as that the page went away meanwhile.
    fn try_call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.running.must_run();
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.pipe.send(&message);
        loop {
            let mut answer = self.pipe.next(CALL_MAX).unwrap_or_else(|why| {
                panic!("{method}: {why}");
            });
            if answer["id"] == json!(id) {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(format!("{method} {params}: {answer}"))
                };
            }
            self.hear(answer);
        }
    }

    fn hear(&mut self, event: Value) {
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(event);
    }

    /// Goes to an address and waits until it is loaded.
    #[track_caller]
    pub fn go(&mut self, address: &str) {
        let went = self.call("Page.navigate", &json!({ "url": address }));
        assert!(went["errorText"].is_null(), "{address}: {went}");
        self.until("the page is loaded", "document.readyState === 'complete'");
    }

    /// The value of a JavaScript expression; a promise is waited for.
    ///
    /// # Errors
    /// What it threw, or that the page went away.
    pub fn try_eval(&mut self, expression: &str) -> Result<Value, String> {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let mut answer = self.try_call("Runtime.evaluate", &params)?;
        let thrown = &answer["exceptionDetails"];
        if !thrown.is_null() {
            return Err(format!("{expression}: {thrown}"));
        }
        Ok(answer["result"]["value"].take())
    }

    /// As [`Browser::try_eval`].
    ///
    /// # Panics
    /// With what it threw.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        self.try_eval(expression)
            .unwrap_or_else(|why| panic!("{why}"))
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// When it does not become true in time.
    #[track_caller]
    pub fn until(&mut self, what: &str, condition: &str) {
        wait::until(what, CALL_MAX, || {
            let value = self.try_eval(condition)?;
            let is_true = value == Value::Bool(true);
            is_true
                .then_some(())
                .ok_or_else(|| format!("{condition} is {value}"))
        });
    }

    /// Shows the page in another size and scheme.
    pub fn look(&mut self, look: Look) {
        let size = json!({
            "width": look.width, "height": look.height, "deviceScaleFactor": 1,
            "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if look.dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Writes the whole page as a PNG.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn screenshot(&mut self, to: &Path) {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.call("Page.captureScreenshot", &params);
        let data = shot["data"].as_str().expect("a picture in base64");
        std::fs::write(to, pipe::base64(data)).expect("the picture is written");
    }

    /// All addresses that were asked for, since [`Browser::forget`].
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let sent = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let url = |event: &Value| event["params"]["request"]["url"].as_str().map(String::from);
        self.heard.iter().filter(sent).filter_map(url).collect()
    }

    /// What the console has as warnings and errors, exceptions that nobody caught, and what
    /// the browser itself complains of, since [`Browser::forget`].
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let is_bad = |event: &&Value| {
            let params = &event["params"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Runtime.consoleAPICalled") => {
                    matches!(
                        params["type"].as_str(),
                        Some("error" | "warning" | "assert")
                    )
                }
                Some("Log.entryAdded") => {
                    matches!(params["entry"]["level"].as_str(), Some("error" | "warning"))
                }
                Some(_) | None => false,
            }
        };
        let heard = self.heard.iter().filter(is_bad);
        heard.map(|event| event["params"].to_string()).collect()
    }

    /// Forgets what was heard so far.
    pub fn forget(&mut self) {
        // What is on its way belongs to before, too.
        self.eval("0");
        self.heard.clear();
    }

    /// Presses and releases a key, by its name in DOM events (`Tab`, `ArrowLeft`, `a`).
    pub fn press(&mut self, key: &str) {
        for event in key::events(key) {
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// The tree that a screen reader gets: role and name of each node that is not ignored.
    pub fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let nodes = nodes.iter().filter(|node| node["ignored"] == json!(false));
        let text = |value: &Value| String::from(value["value"].as_str().unwrap_or_default());
        nodes
            .map(|node| (text(&node["role"]), text(&node["name"])))
            .collect()
    }
}

fn program() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|dir| NAMES.map(|name| dir.join(name)))
        .find(|file| file.is_file());
    let Some(found) = found else {
        panic!(
            "no Chromium ({}): cargo xtask setup installs it, or on Debian: \
             sudo apt-get install chromium",
            NAMES.join(", ")
        )
    };
    found.display().to_string()
}
