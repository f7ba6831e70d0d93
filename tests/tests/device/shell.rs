//! What people have at the shell: `forebay top` on a terminal, `forebay tail`, CSV, exit
//! codes and man pages, against the real binary.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use forebay_node::exit::Exit;
use forebay_node::ports::pty::Pty;
use forebay_tests::process::{ANSWER_LIMIT, END_LIMIT};
use forebay_tests::wait;

use super::sim::{devices, is_open, site};
use super::site::Site;

/// `forebay top` on a terminal of its own.
struct Terminal {
    pty: Pty,
    child: Child,
    /// Settings of the line before.
    before: String,
    seen: String,
}

impl Terminal {
    fn start(site: &Site, args: &[&str]) -> Self {
        let pty = Pty::open().unwrap();
        stty(&pty, &["sane", "rows", "24", "cols", "100"]);
        let before = stty(&pty, &["-g"]);
        let end = || Stdio::from(OwnedFd::from(slave(&pty)));
        // It gets the terminal as its own, so that it hears of another size.
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(site.command(args).get_program())
            .args(args)
            .current_dir(site.path(""))
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid is part of util-linux");
        let seen = String::new();
        Self {
            pty,
            child,
            before,
            seen,
        }
    }

    /// Waits until what was drawn since the last call has this text.
    #[track_caller]
    fn until(&mut self, text: &str) {
        let mut drawn = String::new();
        wait::until(text, ANSWER_LIMIT, || {
            drawn.push_str(&self.read());
            let plain = without_escapes(&drawn);
            let last: String = plain.chars().rev().take(3000).collect();
            let found = plain.contains(text);
            found
                .then_some(())
                .ok_or_else(|| last.chars().rev().collect::<String>())
        });
    }

    fn read(&mut self) -> String {
        let mut bytes = [0; 65536];
        let count = (&self.pty).read(&mut bytes).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        self.seen.push_str(&text);
        text
    }

    fn press(&mut self, keys: &str) {
        (&self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end, which leaves the terminal as it was.
    #[track_caller]
    fn ends(&mut self) {
        let status = wait::until("it ends", END_LIMIT, || {
            // A terminal that nobody reads stops who writes to it.
            self.read();
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| String::from("it runs"))
        });
        self.read();
        assert_eq!(status.code(), Some(0), "{}", self.seen);
        assert_eq!(stty(&self.pty, &["-g"]), self.before);
        for (what, sequence) in [
            ("the first screen", "\x1b[?1049l"),
            ("a cursor", "\x1b[?25h"),
        ] {
            assert!(
                self.seen.contains(sequence),
                "{what}: {}",
                self.seen.escape_debug()
            );
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // When a test fails before its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn slave(pty: &Pty) -> File {
    let mut options = File::options();
    options.read(true).write(true).open(pty.slave()).unwrap()
}

fn stty(pty: &Pty, args: &[&str]) -> String {
    let mut command = Command::new("stty");
    let done = command.args(args).stdin(slave(pty)).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// What stands on the screen, roughly: text without what moves and paints it.
fn without_escapes(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            out.push(c);
            continue;
        }
        if chars.next() == Some('[') {
            // It ends with a letter.
            let _ = chars.find(|c| c.is_ascii_alphabetic());
        }
    }
    out
}

#[test]
fn top_is_live_takes_keys_and_leaves_the_terminal_as_it_was() {
    let site = site();
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    let mut top = Terminal::start(&site, &["top", "--every", "100ms"]);
    top.until("gateway g");
    top.until("boiler");
    top.until("readings/s");
    top.press("s");
    top.until("channel▾");
    top.press("r");
    top.until("channel▴");
    top.press("/zzz\r");
    top.until("do not match \"zzz\"");
    top.press("\x1b");
    top.until("boiler");
    top.press("p");
    top.until("PAUSED");
    top.press("p");
    top.press("h");
    top.until("sort by the next column");
    top.press("x");
    top.until("q quit");
    // Narrower: lines are cut.
    stty(&top.pty, &["rows", "24", "cols", "40"]);
    top.until("…");
    top.press("q");
    top.ends();

    // A signal ends it as well, and so does Ctrl-C.
    for keys in ["", "\x03"] {
        let mut top = Terminal::start(&site, &["top"]);
        top.until("boiler");
        if keys.is_empty() {
            let pid = top.child.id().to_string();
            let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
            assert!(sent.success());
        }
        top.press(keys);
        top.ends();
    }

    // An agent that goes away is said, and the view stays.
    let mut top = Terminal::start(&site, &["top", "--every", "100ms"]);
    top.until("boiler");
    assert!(agent.end_by("TERM").success());
    top.until("! nobody answers");
    let agent = site.agent();
    top.until("health");
    top.press("q");
    top.ends();

    // Without a terminal it is one frame, without an escape.
    let once = site.text(&["top"]).unwrap();
    assert!(
        once.contains("boiler") && once.contains("ledger: "),
        "{once}"
    );
    assert!(!once.contains('\x1b') && !once.contains("q quit"), "{once}");
    let forced = site.text(&["top", "--color", "always"]).unwrap();
    assert!(forced.contains("\x1b[1m"), "{forced}");
    assert!(agent.end_by("TERM").success());
    site.ended(&["top"], 3);
}

#[test]
fn tail_shows_the_last_lines_and_follows_through_a_restart() {
    let site = site();
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    let last = ["tail", "-n", "3", "--no-follow", "--device", "boiler"];
    let lines = wait::until("three readings of the boiler", ANSWER_LIMIT, || {
        let text = site.text(&last)?;
        let lines: Vec<String> = text.lines().map(String::from).collect();
        if lines.len() == 3 {
            Ok(lines)
        } else {
            Err(text)
        }
    });
    assert!(
        lines.iter().all(|line| line.contains("  boiler  ")),
        "{lines:?}"
    );
    let csv = site.text(&[&last[..], &["--csv"]].concat()).unwrap();
    let head = "time,device,channel,value,unit,quality,uid,boot,ordinal,partition,offset";
    assert_eq!(csv.lines().next(), Some(head));
    assert_eq!(csv.lines().count(), 4, "{csv}");
    for line in site
        .text(&[&last[..], &["--json"]].concat())
        .unwrap()
        .lines()
    {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["device"], "boiler", "{row}");
    }

    let mut command = site.command(&["tail", "-n", "1", "--json"]);
    let errors = site.path("tail.err");
    let mut tail = command
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()));
    assert!(agent.end_by("TERM").success());
    let said = |what: &str| {
        wait::until(what, ANSWER_LIMIT, || {
            let text = std::fs::read_to_string(&errors).map_err(|error| error.to_string())?;
            if text.contains(what) {
                Ok(())
            } else {
                Err(text)
            }
        });
    };
    said("it is asked again each second");
    let agent = site.agent();
    said("the agent answers again");
    assert!(lines.next().is_some_and(|line| line.is_ok()));
    // Whoever reads has enough: that is no error.
    drop(lines);
    ends_well(&mut tail);
    assert!(agent.end_by("TERM").success());
}

/// That nobody reads it any more is no error.
#[track_caller]
fn ends_well(child: &mut Child) {
    let status = wait::until("it ends", ANSWER_LIMIT, || {
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        ended.ok_or_else(|| String::from("it runs"))
    });
    assert_eq!(status.code(), Some(0));
}

#[test]
fn what_nobody_reads_any_more_ends_while_nothing_comes() {
    let site = site();
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    for args in [
        &["tail", "late", "--csv"][..],
        &["watch", "late", "--csv"],
        &["device", "log", "boiler", "--follow", "--csv"],
    ] {
        let mut child = site.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.next().is_some_and(|line| line.is_ok()),
            "a head: {args:?}"
        );
        drop(lines);
        ends_well(&mut child);
    }
    assert!(agent.end_by("TERM").success());
}

#[test]
fn tail_says_what_has_not_come() {
    let site = site();
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("all its channels have come", "boiler", |device| {
        let channels = device["channels"].as_array();
        channels.is_some_and(|all| {
            all.len() == 2 && all.iter().all(|channel| channel["newest"].is_object())
        })
    });
    for (args, wanted) in [
        (
            ["--device", "boilr"],
            "nothing has come of a device \"boilr\": there are ",
        ),
        (
            ["--channel", "heat"],
            "nothing has come of a channel \"heat\": there are ",
        ),
    ] {
        let last = ["tail", "-n", "1", "--no-follow"];
        let said = site.ended(&[&last[..], &args].concat(), 0);
        assert!(said.contains(wanted), "{said}");
    }
    assert!(agent.end_by("TERM").success());
}

#[test]
fn queries_have_csv_and_relative_times() {
    let site = site();
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    let of = ["--device", "boiler", "--channel", "temperature"];
    for (args, head) in [
        (
            &["query", "readings", "--from", "-15m", "--to", "now"][..],
            "device,channel,unit,time,value,quality,uncertainty_us,boot,ordinal",
        ),
        (
            &["query", "rollup", "--from", "-1h"],
            "device,channel,unit,start,end,count,mean,min,max,preliminary",
        ),
        (
            &["query", "rolling"],
            "device,channel,unit,time,window_us,count,mean,min,max,preliminary,complete_from",
        ),
    ] {
        let args = [args, &of].concat();
        wait::until("a record of CSV", Duration::from_secs(20), || {
            let csv = site.text(&[&args[..], &["--csv"]].concat())?;
            assert_eq!(csv.lines().next(), Some(head));
            let record = csv.lines().nth(1).map(str::to_owned);
            let record = record.filter(|record| record.starts_with("boiler,temperature,degC,"));
            record.ok_or(csv)
        });
        let text = site.text(&args).unwrap();
        assert!(text.starts_with("boiler temperature"), "{text}");
    }
    for (args, line) in [
        (&["device", "ls"][..], "boiler,f0bea00000000001,"),
        (&["device", "show", "boiler"], "boiler,f0bea00000000001,"),
        (&["status"], "gateway,g"),
        (&["status", "--ledger"], "boiler,f0bea00000000001,"),
        (&["view", "ls"], "stream,view,state,"),
        (&["table", "ls"], "table,source,state,"),
        (&["forward", "ls"], "destination,stream,"),
    ] {
        let csv = site.text(&[args, &["--csv"]].concat()).unwrap();
        assert!(
            csv.lines().any(|one| one.starts_with(line)),
            "{args:?}: {csv}"
        );
    }
    assert!(agent.end_by("TERM").success());
    let logged = site
        .text(&["log", "show", "--csv", "--limit", "2"])
        .unwrap();
    assert!(
        logged.starts_with("kind,partition,offset,time,device,"),
        "{logged}"
    );
}

#[test]
fn exit_codes_are_those_of_the_page() {
    let site = Site::new("");
    std::fs::write(site.path("bad.toml"), "[agent]\ngatewy = 1\n").unwrap();
    std::fs::write(
        site.path("in.csv"),
        "device,channel,time,value\nb,t,never,1\n",
    )
    .unwrap();
    let good = "device,channel,time,value\nb,t,2026-03-01T00:00:00Z,1\n";
    std::fs::write(site.path("good.csv"), good).unwrap();
    for (name, args, exit) in [
        ("help", &["--help"][..], Exit::Ok),
        ("no verb", &["stat"], Exit::Usage),
        (
            "a bad time",
            &["query", "rollup", "--from", "soon"],
            Exit::Usage,
        ),
        (
            "a time too far away",
            &[
                "query",
                "readings",
                "--device",
                "b",
                "--channel",
                "t",
                "--from",
                "-99999999999w",
            ],
            Exit::Usage,
        ),
        (
            "a range of nothing",
            &[
                "query",
                "readings",
                "--device",
                "b",
                "--channel",
                "t",
                "--from",
                "now",
                "--to",
                "-1m",
            ],
            Exit::Usage,
        ),
        (
            "two forms",
            &["device", "ls", "--json", "--csv"],
            Exit::Usage,
        ),
        (
            "a bad config",
            &["status", "--config", "bad.toml"],
            Exit::Usage,
        ),
        ("no config", &["run", "--config", "none.toml"], Exit::Usage),
        ("checked", &["config", "check", "bad.toml"], Exit::Usage),
        (
            "no log",
            &["log", "check", "--data-dir", "none"],
            Exit::Usage,
        ),
        ("nobody", &["status"], Exit::Unreachable),
        ("nobody to follow", &["tail"], Exit::Unreachable),
        ("nobody to watch", &["watch", "late"], Exit::Unreachable),
        ("taken", &["ingest", "--input", "good.csv"], Exit::Ok),
        ("a bad line", &["ingest", "--input", "in.csv"], Exit::Found),
        ("an intact log", &["log", "check"], Exit::Ok),
        ("the same", &["verify"], Exit::Ok),
    ] {
        let done: Output = site.run(args);
        let code = done.status.code();
        assert_eq!(code, Some(exit.number().into()), "{name}: {done:?}");
        if exit == Exit::Usage || exit == Exit::Unreachable {
            assert!(!done.stderr.is_empty(), "{name} says nothing");
        }
    }
    let agent = site.agent();
    let refused = site.run(&["device", "show", "nobody"]);
    assert_eq!(refused.status.code(), Some(Exit::Failed.number().into()));
    assert!(agent.end_by("TERM").success());
}

#[test]
fn man_pages_are_read_without_a_warning() {
    let site = Site::new("");
    site.text(&["man", "man1"]).unwrap();
    let mut pages: Vec<_> = std::fs::read_dir(site.path("man1"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.sort();
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages {
        let read = Command::new("groff")
            // Without bold and underlines; a line that cannot be adjusted is read all the same.
            .args(["-man", "-ww", "-Wbreak", "-Tutf8", "-P-cbou"])
            .arg(&page)
            .output()
            .expect("groff is not there: apt-get install groff-base");
        let said = String::from_utf8_lossy(&read.stderr);
        assert!(
            read.status.success() && said.is_empty(),
            "{}: {said}",
            page.display()
        );
        let text = String::from_utf8_lossy(&read.stdout);
        assert!(
            text.contains("NAME") && text.contains("SYNOPSIS"),
            "{}",
            page.display()
        );
    }
}
