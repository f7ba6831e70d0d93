//! An agent with two devices, a broker and the page in a browser.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_node::sim::{RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace};
use forebay_tests::browser::{Browser, Look};
use forebay_tests::cable::{Cable, DeviceEnd, GatewayEnd};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{ANSWER_LIMIT, Running, ask, root};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

use super::axe::violations;

/// The devices by the names of the config, in order.
pub(crate) const DEVICES: [&str; 2] = ["boiler", "pump"];
/// Of the second device; it has room for some seconds.
const RING: u32 = 64;
const HZ: f64 = 5.0;
const HTTP_LIMIT: Duration = Duration::from_secs(30);

/// The widths and schemes in which the page is looked at.
pub(crate) const LOOKS: [(&str, Look); 4] = [
    ("1280-light", look(1280, 900, false)),
    ("1280-dark", look(1280, 900, true)),
    ("390-light", look(390, 844, false)),
    ("390-dark", look(390, 844, true)),
];

const fn look(width: u32, height: u32, dark: bool) -> Look {
    Look {
        width,
        height,
        dark,
    }
}

/// Dropping it ends all parts.
pub(crate) struct Rig {
    pub(crate) browser: Browser,
    pub(crate) agent: Option<Running>,
    pub(crate) broker: Mosquitto,
    pub(crate) cables: Vec<Cable>,
    pub(crate) sim: SimDevices,
    port: u16,
    dir: TempDir,
}

impl Rig {
    /// All of it runs, and the page has been opened.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sim = devices();
        let cables: Vec<Cable> = (0..DEVICES.len())
            .map(|at| {
                let SimPlace::Tcp(place) = sim.devices()[at].place else {
                    panic!("a device on TCP")
                };
                let gateway = GatewayEnd::Pty(dir.path().join(DEVICES[at]));
                Cable::open(DeviceEnd::Tcp(place), gateway, at as u64).unwrap()
            })
            .collect();
        let broker = Mosquitto::start();
        let port = free_port();
        let config = config_text(&sim, dir.path(), broker.port(), port);
        fs::write(dir.path().join("forebay.toml"), config).unwrap();
        let mut rig = Self {
            browser: Browser::start(),
            agent: None,
            broker,
            cables,
            sim,
            port,
            dir,
        };
        rig.agent_starts();
        rig.browser.look(LOOKS[0].1);
        let address = rig.address("/");
        rig.browser.go(&address);
        rig
    }

    /// Returns when it serves.
    pub(crate) fn agent_starts(&mut self) {
        let config = self.path("forebay.toml");
        let args = ["run", "--config", config.to_str().unwrap()];
        let mut agent = Running::forebay("agent", &args, self.dir.path());
        wait::until("the agent serves", ANSWER_LIMIT, || {
            agent.must_run();
            http(self.port, "/readyz")
        });
        self.agent = Some(agent);
    }

    pub(crate) fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What the API answers.
    #[track_caller]
    pub(crate) fn api(&self, path: &str) -> Value {
        let text = http(self.port, &format!("/api/v1/{path}")).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Gives a reading of the past to the running agent.
    pub(crate) fn ingest(&self, device: &str, channel: &str, time_us: i64, value: f64) {
        let line = format!("device,channel,time,value\n{device},{channel},{time_us},{value}\n");
        let input = self.path("late.csv");
        fs::write(&input, line).unwrap();
        let config = self.path("forebay.toml");
        let args = [
            "ingest",
            "--input",
            input.to_str().unwrap(),
            "--config",
            config.to_str().unwrap(),
        ];
        ask(&args, self.dir.path()).unwrap();
    }

    /// Waits for something to be so on the page.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, condition: &str) {
        if let Some(agent) = &mut self.agent {
            agent.must_run();
        }
        self.browser.until(what, condition);
    }

    /// Keeps pictures of the page at both widths and in both schemes.
    pub(crate) fn pictures(&mut self, name: &str) {
        if let Some(agent) = &mut self.agent {
            agent.must_run();
        }
        pictures(&mut self.browser, name);
    }
}

/// Keeps pictures of what a browser shows, and holds each against the rules of axe-core.
pub(crate) fn pictures(browser: &mut Browser, name: &str) {
    let folder = pictures_folder();
    fs::create_dir_all(&folder).unwrap();
    for (kind, look) in LOOKS {
        browser.look(look);
        browser.until(
            "the charts are as wide as their place",
            "[...document.querySelectorAll('.plot')].every((plot) => \
             Math.abs(plot.querySelector('.uplot').offsetWidth - plot.clientWidth) < 2)",
        );
        // Drawn in the colours of the scheme at the next frame.
        let frames = "new Promise((done) => requestAnimationFrame(() => \
                      requestAnimationFrame(() => done(true))))";
        browser.eval(frames);
        let wide = browser.eval("document.documentElement.scrollWidth");
        let file = folder.join(format!("{name}-{kind}.png"));
        browser.screenshot(&file);
        assert!(
            wide.as_u64() <= Some(look.width.into()),
            "{name} {kind}: {wide} pixels are wider than the window"
        );
        assert_eq!(violations(browser), Vec::<String>::new(), "{name} {kind}");
    }
    browser.look(LOOKS[0].1);
}

/// Beside what cargo builds.
fn pictures_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root().join("target"));
    target.join("page-screenshots")
}

fn devices() -> SimDevices {
    SimDevices::spawn(SimConfig {
        devices: 2,
        host_sensors: false,
        period: SamplePeriod::from_hz(HZ).unwrap(),
        lines: SimLines::Tcp {
            listen: "127.0.0.1:0".parse().unwrap(),
        },
        ring: RingSize::new(RING).unwrap(),
        ..SimConfig::default()
    })
    .unwrap()
}

/// One that an agent may have again after a restart.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn config_text(sim: &SimDevices, dir: &Path, broker: u16, api: u16) -> String {
    let mut text = format!(
        "[agent]\ngateway = \"plant-1\"\ndata_dir = \"data\"\n\
         [api]\nlisten = \"127.0.0.1:{api}\"\n\
         [forward]\nbroker = \"127.0.0.1:{broker}\"\nbackoff_max = \"1s\"\n\
         [[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"1m\"\n\
         aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\
         [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
         aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n"
    );
    for (info, name) in sim.devices().iter().zip(DEVICES) {
        let (uid, path) = (info.uid, dir.join(name));
        let path = path.display();
        let _ = write!(
            text,
            "[[device_port]]\nkind = \"serial\"\npath = \"{path}\"\n\
             [[device]]\nuid = \"{uid}\"\nname = \"{name}\"\n"
        );
    }
    text
}

/// The body of an answer with status 200. As HTTP/1.0: it ends with its connection.
pub(crate) fn http(port: u16, path: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(text)?;
    stream.set_read_timeout(Some(HTTP_LIMIT)).map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.into()),
        Some(_) | None => Err(format!("{path}: {answer}")),
    }
}
