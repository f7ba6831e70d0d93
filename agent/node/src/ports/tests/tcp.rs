//! Ports to TCP peers that go, refuse, stay silent or take nothing.

use std::os::fd::AsRawFd;

use super::rig::{Rig, within};
use super::*;

fn tcp(address: std::net::SocketAddr) -> PortPlace {
    PortPlace::Tcp {
        address: address.to_string(),
    }
}

#[tokio::test]
async fn a_tcp_port_connects_again_when_its_peer_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut rig = Rig::new(vec![PortPlace::Tcp {
        address: address.to_string(),
    }]);
    for round in 0..3_u8 {
        let (mut peer, _) = within("a connection", listener.accept()).await.unwrap();
        rig.opened(0).await;
        peer.write_all(&[round; 8]).await.unwrap();
        assert_eq!(rig.bytes(0, 8).await, [round; 8]);
        assert!(rig.write(0, b"back"));
        let mut back = [0; 4];
        within("bytes back", peer.read_exact(&mut back))
            .await
            .unwrap();
        assert_eq!(&back, b"back");
        drop(peer);
        assert_eq!(rig.closed(0).await, CloseReason::Gone);
    }
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_peer_that_breaks_off_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut rig = Rig::new(vec![tcp(listener.local_addr().unwrap())]);
    let (peer, _) = within("a connection", listener.accept()).await.unwrap();
    rig.opened(0).await;
    assert!(rig.write(0, b"never read"));
    // Bytes that were not read make the system send a reset, not an end.
    within("bytes", peer.readable()).await.unwrap();
    drop(peer);
    assert_eq!(rig.closed(0).await, CloseReason::Gone);
    let (_peer, _) = within("another connection", listener.accept())
        .await
        .unwrap();
    rig.opened(0).await;
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_peer_that_takes_no_byte_is_closed_and_connected_anew() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut rig = Rig::new(vec![tcp(listener.local_addr().unwrap())]);
    let (mut deaf, _) = within("a connection", listener.accept()).await.unwrap();
    rig.opened(0).await;
    let closed = loop {
        // Megabytes fit into the system's buffers.
        rig.write(0, &[0xA5; 60_000]);
        tokio::task::yield_now().await;
        if let Ok(event) = rig.events.try_recv() {
            break event.kind;
        }
    };
    let reason = CloseReason::WriteTimedOut;
    assert_eq!(closed, PortEventKind::Closed { reason });
    let (_peer, _) = within("another connection", listener.accept())
        .await
        .unwrap();
    rig.opened(0).await;
    // It was only deaf: what it did get came in order.
    let mut first = [0; 1000];
    deaf.read_exact(&mut first).await.unwrap();
    assert_eq!(first, [0xA5; 1000]);
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_peer_that_never_answers_counts_as_absent() {
    // A full queue of connections: the system drops what comes on top.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    crate::ports::sys::shorten_backlog(listener.as_raw_fd()).unwrap();
    let address = listener.local_addr().unwrap();
    let fill = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200));
    let filled: Vec<_> = std::iter::from_fn(|| fill().ok()).take(64).collect();
    assert!(filled.len() < 64, "the queue has no end");
    let rig = Rig::new(vec![tcp(address)]);
    let status = rig
        .until("a verdict", |status| status.last_error.is_some())
        .await;
    assert_eq!(
        status.last_error.unwrap(),
        format!("cannot connect to {address}: no answer in 2 s")
    );
    rig.ports.stop().await;
}
