//! Whether brokers can be reached as the agent would reach them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::check::{Check, Finding};
use super::codes::{
    BROKER_CERTIFICATE, BROKER_FILES, BROKER_MQTT, BROKER_NAME, BROKER_TCP, BROKER_TLS,
};
use super::limits::CERTIFICATE_DAYS;
use crate::config::BrokerConfig;
use crate::mqtt::probe::{Reached, Refused, Step, probe};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerFacts {
    pub(super) address: String,
    pub(super) is_tls: bool,
    /// Seconds since 1970.
    pub(super) now: u64,
    pub(super) tried: Result<Reached, Refused>,
}

/// Tries it, within `limit`.
pub(super) fn look(broker: &BrokerConfig, limit: Duration) -> Result<BrokerFacts, String> {
    // Not the agent's: a broker drops the older of two clients with one name.
    let client_id = format!(
        "forebay-doctor-{:08x}",
        getrandom::u32().unwrap_or_default()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("no threads: {error}"))?;
    let tried = runtime.block_on(probe(broker, &client_id, limit));
    // A name that nobody answers for is still being looked up.
    runtime.shutdown_background();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(BrokerFacts {
        address: broker.address.clone(),
        is_tls: broker.transport.is_tls(),
        now: now.as_secs(),
        tried,
    })
}

fn check_of(step: Step) -> (&'static Check, &'static str) {
    match step {
        Step::Files => (&BROKER_FILES, "mend the file, or its key in the config"),
        Step::Name => (
            &BROKER_NAME,
            "see to the network and DNS (`getent hosts NAME`), or give the address",
        ),
        Step::Tcp => (
            &BROKER_TCP,
            "see to the network, the firewall, and whether the broker runs",
        ),
        Step::Tls => (
            &BROKER_TLS,
            "as it says; the keys are ca_file, server_name, cert_file and key_file",
        ),
        Step::Mqtt => (
            &BROKER_MQTT,
            "as it says; the keys are protocol, transport, username and password_file",
        ),
    }
}

pub(super) fn judge(facts: &BrokerFacts) -> Vec<Finding> {
    let reached = match &facts.tried {
        Ok(reached) => reached,
        Err(refused) => return refused_at(facts, refused),
    };
    let addresses: Vec<String> = reached
        .addresses
        .iter()
        .map(|a| a.ip().to_string())
        .collect();
    let mut findings = vec![
        Finding::ok(
            &BROKER_NAME,
            format!("{} is {}", facts.address, addresses.join(", ")),
        ),
        Finding::ok(&BROKER_TCP, "the port answers"),
    ];
    if facts.is_tls {
        findings.push(Finding::ok(&BROKER_TLS, "TLS comes about"));
        findings.extend(certificates(facts, reached));
    }
    findings.push(Finding::ok(
        &BROKER_MQTT,
        format!(
            "the broker took a client of its own for this check in {} ms",
            reached.took.as_millis()
        ),
    ));
    findings
}

/// What came before the step that failed is well.
fn refused_at(facts: &BrokerFacts, refused: &Refused) -> Vec<Finding> {
    let before = [
        (Step::Name, "the name has an address"),
        (Step::Tcp, "the port answers"),
        (Step::Tls, "TLS comes about"),
    ];
    let before = before.into_iter().filter(|(step, _)| *step < refused.step);
    let before = before.filter(|(step, _)| *step != Step::Tls || facts.is_tls);
    let mut findings: Vec<Finding> = before
        .map(|(step, text)| Finding::ok(check_of(step).0, text))
        .collect();
    let (check, advice) = check_of(refused.step);
    findings.push(Finding::fail(check, &refused.text, advice));
    findings
}

fn certificates(facts: &BrokerFacts, reached: &Reached) -> Vec<Finding> {
    let both = [
        ("the broker's certificate", reached.certificate_ends),
        ("our certificate", reached.own_certificate_ends),
    ];
    both.into_iter()
        .filter_map(|(whose, ends)| Some((whose, ends?)))
        .map(|(whose, ends)| {
            let days = ends.saturating_sub(facts.now) / 86_400;
            let fact = format!("{whose} ends in {days} days");
            if days < CERTIFICATE_DAYS {
                let advice = "have it renewed; the agent takes a new file by itself";
                Finding::warn(&BROKER_CERTIFICATE, fact, advice)
            } else {
                Finding::ok(&BROKER_CERTIFICATE, fact)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    const DAY: u64 = 86_400;

    fn facts(tried: Result<Reached, Refused>, is_tls: bool) -> BrokerFacts {
        BrokerFacts {
            address: "b:8883".into(),
            is_tls,
            now: 1_000 * DAY,
            tried,
        }
    }

    fn reached(days: Option<u64>, own: Option<u64>) -> Result<Reached, Refused> {
        let ends = |days: u64| (1_000 + days) * DAY;
        Ok(Reached {
            addresses: vec!["10.0.0.1:8883".parse().unwrap()],
            took: Duration::from_millis(3),
            certificate_ends: days.map(ends),
            own_certificate_ends: own.map(ends),
        })
    }

    fn codes(facts: &BrokerFacts) -> Vec<(&'static str, Level)> {
        judge(facts)
            .iter()
            .map(|finding| (finding.check.code, finding.level))
            .collect()
    }

    #[test]
    fn brokers_of_all_kinds() {
        let refused = |step| {
            Err(Refused {
                step,
                text: "no".into(),
            })
        };
        let (name, tcp) = (("broker.name", Level::Ok), ("broker.tcp", Level::Ok));
        let tls = ("broker.tls", Level::Ok);
        let mqtt = ("broker.mqtt", Level::Ok);
        let ends = |level| ("broker.certificate", level);
        for (what, facts, want) in [
            (
                "plain",
                facts(reached(None, None), false),
                vec![name, tcp, mqtt],
            ),
            (
                "tls",
                facts(reached(Some(90), None), true),
                vec![name, tcp, tls, ends(Level::Ok), mqtt],
            ),
            (
                "days-1",
                facts(reached(Some(CERTIFICATE_DAYS - 1), None), true),
                vec![name, tcp, tls, ends(Level::Warn), mqtt],
            ),
            (
                "days",
                facts(reached(Some(CERTIFICATE_DAYS), None), true),
                vec![name, tcp, tls, ends(Level::Ok), mqtt],
            ),
            (
                "days+1",
                facts(reached(Some(CERTIFICATE_DAYS + 1), None), true),
                vec![name, tcp, tls, ends(Level::Ok), mqtt],
            ),
            (
                "ours ends",
                facts(reached(Some(90), Some(0)), true),
                vec![name, tcp, tls, ends(Level::Ok), ends(Level::Warn), mqtt],
            ),
            (
                "no file",
                facts(refused(Step::Files), true),
                vec![("broker.files", Level::Fail)],
            ),
            (
                "no name",
                facts(refused(Step::Name), true),
                vec![("broker.name", Level::Fail)],
            ),
            (
                "no port",
                facts(refused(Step::Tcp), true),
                vec![name, ("broker.tcp", Level::Fail)],
            ),
            (
                "no tls",
                facts(refused(Step::Tls), true),
                vec![name, tcp, ("broker.tls", Level::Fail)],
            ),
            (
                "not let in",
                facts(refused(Step::Mqtt), true),
                vec![name, tcp, tls, ("broker.mqtt", Level::Fail)],
            ),
            (
                "not let in without tls",
                facts(refused(Step::Mqtt), false),
                vec![name, tcp, ("broker.mqtt", Level::Fail)],
            ),
        ] {
            assert_eq!(codes(&facts), want, "{what}");
        }
    }
}
