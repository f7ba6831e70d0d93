//! An agent with two devices, a broker and the page in a browser.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_node::sim::{RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace};
use forebay_tests::browser::{Browser, Look};
use forebay_tests::cable::{Cable, DeviceEnd, GatewayEnd};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{forebay_bin, root};

use super::axe::violations;
use super::served::Served;

/// The devices by the names of the config, in order.
pub(crate) const DEVICES: [&str; 2] = ["boiler", "pump"];
/// Of the second device; it has room for some seconds.
const RING: u32 = 64;
const HZ: f64 = 5.0;

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
    pub(crate) agent: Served,
    pub(crate) broker: Mosquitto,
    pub(crate) cables: Vec<Cable>,
    pub(crate) sim: SimDevices,
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
        let folder = dir.path().to_path_buf();
        let agent = Served::new(dir, |port| config_text(&sim, &folder, broker.port(), port));
        let mut rig = Self {
            browser: Browser::start(),
            agent,
            broker,
            cables,
            sim,
        };
        rig.agent.starts(forebay_bin());
        rig.browser.look(LOOKS[0].1);
        rig.browser.go(&rig.agent.address());
        rig
    }

    /// Gives a reading of the past to the running agent.
    pub(crate) fn ingest(&self, device: &str, channel: &str, time_us: i64, value: f64) {
        let line = format!("device,channel,time,value\n{device},{channel},{time_us},{value}\n");
        self.agent.ingest("late.csv", &line);
    }

    /// Waits for something to be so on the page.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, condition: &str) {
        self.agent.must_run();
        self.browser.until(what, condition);
    }

    /// Keeps pictures of the page at both widths and in both schemes.
    pub(crate) fn pictures(&mut self, name: &str) {
        self.agent.must_run();
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
