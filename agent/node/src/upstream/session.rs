//! When the receiver draws a new session: when messages that a broker had acked to
//! gateways may be lost, so that these send again what was not confirmed.
//!
//! Always holds: a broker that has forgotten a client which it held messages for is
//! noticed, also when the client is one of several. Bound: the core's of clients.

use forebay_core::limits::UPSTREAM_CLIENTS_MAX;
use forebay_core::upstream::apply::Applier;

use super::connections::Plan;

/// Notes that a connection is up; true when a new session is to be drawn.
pub(super) fn on_connected(
    applier: &mut Applier,
    plan: &Plan,
    connection: usize,
    session_present: bool,
) -> bool {
    let Some(group) = plan.group() else {
        return !session_present || applier.session().is_none();
    };
    let member = plan.member(connection);
    let of_group = format!("{group}/");
    let is_known = applier.clients().any(|client| client == member);
    let others = applier
        .clients()
        .any(|client| client.starts_with(&of_group));
    let is_full = applier.clients().count() >= UPSTREAM_CLIENTS_MAX;
    // One that was never there before has lost nothing; the first of a group comes after
    // receivers that were in none.
    let joins = !is_known && others && !is_full;
    let left: Vec<String> = applier
        .clients()
        .filter(|client| plan.has_left(client))
        .map(str::to_owned)
        .collect();
    for client in &left {
        applier.forget_client(client);
    }
    applier.note_client(&member);
    applier.session().is_none() || !session_present && !joins || !left.is_empty()
}

#[cfg(test)]
mod tests {
    use forebay_core::payload::SessionNonce;

    use super::*;
    use crate::config::ShareConfig;
    use crate::mqtt::client::MqttConfig;

    fn plan(id: &str, workers: u16, group: Option<&str>) -> Plan {
        let share = ShareConfig {
            workers,
            group: group.map(str::to_owned),
        };
        Plan::new(MqttConfig::new("h", 1883, id), share, 7)
    }

    #[test]
    fn a_session_is_drawn_when_a_broker_may_have_lost_something() {
        let mut applier = Applier::default();
        let alone = plan("up", 1, None);
        let two = plan("up", 2, None);
        let one_of_two = plan("up", 1, Some("forebay"));
        let another = plan("down", 1, Some("forebay"));
        for (name, plan, connection, present, draws) in [
            ("alone, the first time", &alone, 0, false, true),
            ("alone, remembered", &alone, 0, true, false),
            ("alone, forgotten", &alone, 0, false, true),
            ("two: what the one was sent is gone", &two, 0, false, true),
            ("two: the second joins", &two, 1, false, false),
            ("two: remembered", &two, 1, true, false),
            ("two: forgotten", &two, 1, false, true),
            ("another process joins", &another, 0, false, false),
            ("another process is forgotten", &another, 0, false, true),
            ("the second is no more", &one_of_two, 0, true, true),
            ("that is said once", &one_of_two, 0, true, false),
        ] {
            let drawn = on_connected(&mut applier, plan, connection, present);
            assert_eq!(drawn, draws, "{name}");
            if drawn {
                applier.renew_session(SessionNonce([1; 16]));
            }
        }
    }

    #[test]
    fn clients_at_their_limit() {
        let mut applier = Applier::default();
        applier.renew_session(SessionNonce([1; 16]));
        for n in 0..UPSTREAM_CLIENTS_MAX + 1 {
            let plan = plan(&format!("up{n}"), 1, Some("g"));
            let drawn = on_connected(&mut applier, &plan, 0, false);
            let want = n == 0 || n >= UPSTREAM_CLIENTS_MAX;
            assert_eq!(drawn, want, "{n}: one that cannot be remembered may lose");
            assert!(applier.clients().count() <= UPSTREAM_CLIENTS_MAX);
        }
    }
}
