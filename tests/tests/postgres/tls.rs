//! TLS to the server: only to one whose certificate holds for the configured host.

use forebay_node::config::PostgresConfig;
use forebay_node::upstream::{PostgresSink, Sink};
use forebay_tests::postgres::Postgres;

use super::made::{batch, commit, config};

/// Gives the server a certificate for `name`, and us the file to check it by.
fn certified(server: &mut Postgres, name: &str) -> PostgresConfig {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let cert = server.put("server.pem", &made.cert.pem());
    let key = server.put("server.key", &made.signing_key.serialize_pem());
    server.restart_with(&format!(
        "fsync = off\nssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'",
        cert.display(),
        key.display()
    ));
    let mut config = config(server);
    config.tls = true;
    config.ca_file = Some(cert);
    config
}

#[test]
fn rows_go_under_tls_to_a_server_that_is_who_it_says() {
    let mut server = Postgres::start();
    let config = certified(&mut server, "127.0.0.1");
    let mut sink = PostgresSink::open(&config).unwrap();
    commit(&mut sink, &batch("gw", 0, Vec::new()));
    let under_tls = server.number(
        "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.application_name = 'forebay' AND s.ssl",
    );
    assert_eq!(under_tls, 1);
    assert!(sink.load(None).unwrap().versions.len() == 1);
}

#[test]
fn a_server_that_is_another_gets_nothing() {
    let mut server = Postgres::start();
    let mut config = certified(&mut server, "db.example");
    let error = PostgresSink::open(&config).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    assert!(error.contains("not valid for name"), "{error}");
    // One that an authority of ours has not signed.
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    config.ca_file = Some(server.put("other.pem", &other.cert.pem()));
    let error = PostgresSink::open(&config).unwrap_err().to_string();
    assert!(error.contains("ca_file"), "{error}");
}
