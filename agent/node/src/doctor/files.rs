//! The config, and the files that it names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::check::Finding;
use super::codes::{API_TOKEN, CONFIG_FILES, CONFIG_PARSE, CONFIG_SECRETS, CONFIG_SOCKET};
use super::host::{Me, may};
use super::limits::SOCKET_PATH_BYTES_MAX;
use crate::config::{
    ApiConfig, BrokerConfig, Config, ConfigError, FeedFrom, PasswordFrom, Placed, PostgresPassword,
};

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Only its owner should read it.
    Secret,
    Token,
    Public,
    /// Need not be there.
    Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileFacts {
    /// Key of the config that names it.
    pub(super) key: String,
    pub(super) path: PathBuf,
    pub(super) used: Use,
    /// Rights and length; `None`: it is not there, or cannot be looked at.
    pub(super) found: Option<(u32, u64)>,
    pub(super) readable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FilesFacts {
    pub(super) files: Vec<FileFacts>,
    pub(super) sockets: Vec<PathBuf>,
    pub(super) user: String,
}

/// What came of reading the config.
pub(super) fn parsed(file: &Path, config: &Result<Config, ConfigError>) -> Finding {
    match config {
        Ok(config) => Finding::ok(
            &CONFIG_PARSE,
            format!(
                "{} reads: {}, {}, {}{}",
                file.display(),
                counted(config.device_ports.len(), "port"),
                counted(
                    config.engine.windows.len() + config.engine.joins.len(),
                    "window or join"
                )
                .replace("window or joins", "windows and joins"),
                counted(config.forward.len(), "destination"),
                match config.upstream {
                    Some(_) => ", a receiver",
                    None => "",
                }
            ),
        ),
        Err(error) => Finding::fail(
            &CONFIG_PARSE,
            error.to_string(),
            match error.line {
                Some(_) => "mend this line; `forebay config reference` shows every key",
                None => {
                    "give the path of the config that the agent or receiver runs with by --config"
                }
            },
        ),
    }
}

/// A number of things.
fn counted(count: usize, of: &str) -> String {
    match count {
        0 => format!("no {of}"),
        1 => format!("1 {of}"),
        more => format!("{more} {of}s"),
    }
}

/// Key, path and use of a file.
type Named = Vec<(String, PathBuf, Use)>;

pub(super) fn look(config: &Config) -> FilesFacts {
    let mut named = Named::new();
    for forward in &config.forward {
        let section = format!("[forward] {}", forward.settings.name);
        of_broker(&forward.broker, &section, &mut named);
    }
    if let Some(upstream) = &config.upstream {
        of_broker(&upstream.broker, "[upstream]", &mut named);
        if let Some(postgres) = &upstream.postgres
            && let Some(PostgresPassword::File(path)) = &postgres.password
        {
            let key = "[postgres] password_file".to_owned();
            named.push((key, path.clone(), Use::Secret));
        }
    }
    for feed in &config.feeds {
        match &feed.from {
            FeedFrom::Mqtt { broker, .. } => of_broker(broker, "[[table]]", &mut named),
            FeedFrom::File(_) | FeedFrom::Postgres { .. } | FeedFrom::Missing(_) => {}
        }
    }
    of_databases(config, &mut named);
    for api in config.served() {
        of_api(api, &mut named);
    }
    let firmware = config.agent.firmware.iter();
    named.extend(firmware.map(|path| ("[agent] firmware".to_owned(), path.clone(), Use::Wanted)));
    let upstream = config.upstream.iter();
    let mut sockets = vec![config.query.socket.clone()];
    sockets.extend(upstream.map(|upstream| upstream.socket.clone()));
    sockets.extend(config.served().filter_map(|api| api.socket.clone()));
    let files = named.into_iter();
    FilesFacts {
        files: files
            .map(|(key, path, used)| look_at(key, path, used))
            .collect(),
        sockets,
        user: Me::find().user,
    }
}

fn of_databases(config: &Config, named: &mut Named) {
    for database in &config.databases {
        let key = |name: &str| format!("[[database]] {} {name}", database.name);
        if let Some(PostgresPassword::File(path)) = &database.password {
            named.push((key("password_file"), path.clone(), Use::Secret));
        }
        if let Some(path) = &database.ca_file {
            named.push((key("ca_file"), path.clone(), Use::Public));
        }
        if let Some((cert, secret)) = &database.identity {
            named.push((key("cert_file"), cert.clone(), Use::Public));
            named.push((key("key_file"), secret.clone(), Use::Secret));
        }
    }
}

fn of_api(api: &ApiConfig, named: &mut Named) {
    let mut add = |file: &Placed<PathBuf>, used| {
        named.push((file.place.key.clone(), file.value.clone(), used));
    };
    if let Some(file) = &api.token_file {
        add(file, Use::Token);
    }
    if let Some(tls) = &api.tls {
        add(&tls.cert, Use::Public);
        add(&tls.key, Use::Secret);
        if let Some(file) = &tls.client_ca {
            add(file, Use::Public);
        }
    }
}

fn of_broker(broker: &BrokerConfig, section: &str, named: &mut Named) {
    let mut add = |name: &str, path: &Path, used| {
        named.push((format!("{section} {name}"), path.to_owned(), used));
    };
    match &broker.password {
        Some(PasswordFrom::File(file)) => add("password_file", &file.value, Use::Secret),
        Some(PasswordFrom::Env(_)) | None => {}
    }
    if let Some(file) = &broker.tls.ca_file {
        add("ca_file", &file.value, Use::Public);
    }
    if let Some(identity) = &broker.tls.identity {
        add("cert_file", &identity.cert_file.value, Use::Public);
        add("key_file", &identity.key_file.value, Use::Secret);
    }
}

fn look_at(key: String, path: PathBuf, used: Use) -> FileFacts {
    let found = fs::metadata(&path).ok();
    FileFacts {
        found: found.map(|found| (found.permissions().mode() & 0o7777, found.len())),
        readable: may(&path, Access::READ_OK),
        key,
        path,
        used,
    }
}

pub(super) fn judge(facts: &FilesFacts) -> Vec<Finding> {
    let mut findings = files(facts);
    findings.extend(sockets(facts));
    findings
}

fn files(facts: &FilesFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut secrets = 0;
    for file in &facts.files {
        let (key, path) = (&file.key, file.path.display());
        match file.found {
            None if file.used == Use::Wanted => {
                let text = format!("{path} is not there: device logs show numbers only");
                findings.push(
                    Finding::warn(&CONFIG_FILES, text, "make it, or correct the path").of(key),
                );
            }
            None => {
                let text = format!("{path} is not there, or {} may not look at it", facts.user);
                findings.push(
                    Finding::fail(&CONFIG_FILES, text, "make it, or correct the path").of(key),
                );
            }
            Some(_) if !file.readable => {
                let text = format!("{path} may not be read by {}", facts.user);
                let mend = format!("sudo chown {} {path}", facts.user);
                findings.push(Finding::fail(&CONFIG_FILES, text, mend).of(key));
            }
            Some((mode, length)) => {
                if file.used == Use::Token {
                    findings.push(token(&path.to_string(), length).of(key));
                }
                if matches!(file.used, Use::Secret | Use::Token) {
                    secrets += 1;
                    findings
                        .extend(open_secret(&path.to_string(), mode).map(|found| found.of(key)));
                }
            }
        }
    }
    let bad = |check| {
        findings
            .iter()
            .any(|finding| std::ptr::eq(finding.check, check))
    };
    let (files_bad, secrets_bad) = (bad(&CONFIG_FILES), bad(&CONFIG_SECRETS));
    if !files_bad {
        let text = match facts.files.len() {
            0 => String::from("no file is named"),
            1 => String::from("one file is named, and can be read"),
            more => format!("{more} files are named, and all can be read"),
        };
        findings.push(Finding::ok(&CONFIG_FILES, text));
    }
    if !secrets_bad && secrets > 0 {
        let text = match secrets {
            1 => String::from("one file has a secret, for its owner alone"),
            more => format!("{more} files have secrets, for their owner alone"),
        };
        findings.push(Finding::ok(&CONFIG_SECRETS, text));
    }
    findings
}

fn token(path: &str, length: u64) -> Finding {
    if length == 0 {
        let mend = format!("openssl rand -hex 32 > {path}");
        return Finding::fail(&API_TOKEN, format!("{path} is empty"), mend);
    }
    Finding::ok(&API_TOKEN, format!("{path} has a token"))
}

fn open_secret(path: &str, mode: u32) -> Option<Finding> {
    let text = match mode & 0o077 {
        0 => return None,
        others if others & 0o007 != 0 => {
            format!("{path} can be read or written by everybody ({mode:04o})")
        }
        _ => format!("{path} can be read or written by its group ({mode:04o})"),
    };
    Some(Finding::warn(
        &CONFIG_SECRETS,
        text,
        format!("chmod 600 {path}"),
    ))
}

fn sockets(facts: &FilesFacts) -> Vec<Finding> {
    let long = |path: &&PathBuf| path.as_os_str().len() > SOCKET_PATH_BYTES_MAX;
    let mut findings: Vec<Finding> = facts
        .sockets
        .iter()
        .filter(long)
        .map(|path| {
            let text = format!(
                "{} has {} bytes, and a socket's path may have {SOCKET_PATH_BYTES_MAX}",
                path.display(),
                path.as_os_str().len()
            );
            Finding::fail(
                &CONFIG_SOCKET,
                text,
                "give a shorter `socket`, or a shorter data_dir",
            )
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(
            &CONFIG_SOCKET,
            "paths of sockets are short enough",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    #[test]
    fn files_of_all_kinds() {
        let file = |used, found, readable| FileFacts {
            key: "[forward] default key_file".into(),
            path: "/etc/forebay/key".into(),
            used,
            found,
            readable,
        };
        for (name, facts, code, want) in [
            (
                "good",
                file(Use::Secret, Some((0o600, 9)), true),
                "config.files",
                Level::Ok,
            ),
            (
                "a good secret",
                file(Use::Secret, Some((0o400, 9)), true),
                "config.secrets",
                Level::Ok,
            ),
            (
                "for the group",
                file(Use::Secret, Some((0o640, 9)), true),
                "config.secrets",
                Level::Warn,
            ),
            (
                "for all",
                file(Use::Token, Some((0o644, 9)), true),
                "config.secrets",
                Level::Warn,
            ),
            (
                "no secret",
                file(Use::Public, Some((0o644, 9)), true),
                "config.files",
                Level::Ok,
            ),
            (
                "gone",
                file(Use::Public, None, false),
                "config.files",
                Level::Fail,
            ),
            (
                "not for us",
                file(Use::Secret, Some((0o600, 9)), false),
                "config.files",
                Level::Fail,
            ),
            (
                "nice to have",
                file(Use::Wanted, None, false),
                "config.files",
                Level::Warn,
            ),
            (
                "no token",
                file(Use::Token, Some((0o600, 0)), true),
                "api.token",
                Level::Fail,
            ),
            (
                "a token",
                file(Use::Token, Some((0o600, 1)), true),
                "api.token",
                Level::Ok,
            ),
        ] {
            let facts = FilesFacts {
                files: vec![facts],
                ..FilesFacts::default()
            };
            let found = judge(&facts);
            let of_code = found.iter().find(|finding| finding.check.code == code);
            assert_eq!(
                of_code.map(|finding| finding.level),
                Some(want),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn paths_of_sockets_around_their_limit() {
        for (name, bytes, want) in [
            ("limit-1", SOCKET_PATH_BYTES_MAX - 1, Level::Ok),
            ("limit", SOCKET_PATH_BYTES_MAX, Level::Ok),
            ("limit+1", SOCKET_PATH_BYTES_MAX + 1, Level::Fail),
        ] {
            let facts = FilesFacts {
                sockets: vec!["x".repeat(bytes).into()],
                ..FilesFacts::default()
            };
            assert_eq!(sockets(&facts)[0].level, want, "{name}");
            // The kernel's own word on it.
            let address = std::os::unix::net::SocketAddr::from_pathname("x".repeat(bytes));
            assert_eq!(address.is_ok(), want == Level::Ok, "{name}");
        }
    }
}
