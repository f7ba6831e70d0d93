//! TLS to the server: only to one whose certificate holds for the configured host.

use forebay_node::config::DatabaseConfig;

use super::rig::{Rig, Running, changes, source, tables};

/// Gives the server a certificate for `name`, and us the file to check it by.
fn certified(rig: &mut Rig, name: &str) -> DatabaseConfig {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let cert = rig.server.put("server.pem", &made.cert.pem());
    let key = rig
        .server
        .put("server.key", &made.signing_key.serialize_pem());
    rig.server.restart_with(&format!(
        "wal_level = logical\nssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'",
        cert.display(),
        key.display()
    ));
    rig.reconnect();
    let mut config = rig.config();
    config.tls = true;
    config.ca_file = Some(cert);
    config
}

#[test]
fn changes_come_under_tls_from_a_server_that_is_who_it_says() {
    let mut rig = Rig::new();
    let config = certified(&mut rig, "127.0.0.1");
    let mut running = Running::start(source(config, rig.home.path(), None, tables()));
    running.until_streaming();
    // More than one record of TLS.
    rig.sql("INSERT INTO places SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n");
    running.until_changes(1000);
    assert_eq!(changes(&running.events).len(), 1000);
    let under_tls = rig.server.number(
        "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.application_name = 'forebay' AND s.ssl",
    );
    assert_eq!(under_tls, 2, "both of its connections");
}

#[test]
fn a_server_that_is_another_is_told_nothing() {
    let mut rig = Rig::new();
    let mut config = certified(&mut rig, "db.example");
    let start = |config: &DatabaseConfig| {
        Running::start(source(config.clone(), rig.home.path(), None, tables()))
    };
    start(&config).until_said("not valid for name");
    // One that an authority of ours has not signed.
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    config.ca_file = Some(rig.server.put("other.pem", &other.cert.pem()));
    start(&config).until_said("Name the authority of its certificate by ca_file");
}
