//! What a broker may do wrong, as values: what goes on while it is set, and what
//! happens once. Does nothing.

use std::time::Duration;

/// So many of a thousand.
pub type PerMille = u64;

/// What a client is told of its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forget {
    #[default]
    No,
    /// Gone, and the CONNACK says so.
    Said,
    /// Gone with all that waited in it, and the CONNACK says that it is there.
    Silently,
}

/// What goes wrong as long as it is set. The default is a good broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Acks come after up to so long.
    pub ack_late: Duration,
    /// Acks wait for [`Act::Release`] or [`Act::ReleaseReversed`].
    pub hold_acks: bool,
    /// So many acks are gathered, and go out the last first; 0 and 1 are none.
    pub reverse_acks: usize,
    pub double_ack: PerMille,
    pub missing_ack: PerMille,
    /// An ack of a number that nobody used comes before the right one.
    pub unknown_ack: PerMille,
    /// Refused by one of these reasons. Version 3.1.1 has none: the connection ends.
    pub refuse: PerMille,
    pub reasons: Vec<u8>,
    /// Messages whose payload has these bytes in it are refused by this reason.
    pub poison: Option<(Vec<u8>, u8)>,
    /// Acked to the publisher, and gone.
    pub drop: PerMille,
    /// Goes to a subscriber twice.
    pub double: PerMille,
    /// Goes to a subscriber before what waits for it already.
    pub reorder: PerMille,
    /// What is to be retained is not.
    pub lose_retained: PerMille,
    /// Half of a packet to a client goes out, and the connection ends.
    pub cut_in_packet: PerMille,
    pub forget: Forget,
    /// Clients are taken on with this limit; version 5 only.
    pub receive_max: Option<u16>,
    pub packet_max: Option<u32>,
    /// Clients are not taken on, by this code of version 5.
    pub refuse_connect: Option<u8>,
    /// Half open: takes connections and bytes, and answers nothing. Connections that
    /// were treated so end when it is over.
    pub mute: bool,
    /// Reads nothing: the client's writes come to a halt.
    pub deaf: bool,
    /// Nobody is taken on: connections end at once.
    pub down: bool,
    /// Messages of clients are kept for [`super::Broker::take_seen`].
    pub watch: bool,
}

/// A message of a client, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Connections, counted from the first.
    pub link: u64,
    /// Since the client was taken on.
    pub after: Duration,
    pub topic: String,
    pub payload: Vec<u8>,
    /// Of version 5, as they stand in the packet.
    pub properties: Vec<u8>,
}

impl Seen {
    /// Whether it has a user property.
    #[must_use]
    pub fn says(&self, name: &str, value: &str) -> bool {
        let mut pair = vec![0x26];
        for text in [name, value] {
            let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
            pair.extend(len.to_be_bytes());
            pair.extend(text.as_bytes());
        }
        self.properties.windows(pair.len()).any(|part| part == pair)
    }

    #[must_use]
    pub fn is_data(&self) -> bool {
        self.topic.contains("/data/")
    }
}

/// What of its disk a broker finds when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    Kept,
    /// As it was at the last [`Act::Save`]: what came since is gone, what was acked
    /// since comes again.
    Old,
    Wiped,
}

/// What happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// All connections end.
    Cut,
    /// All connections end with a word of the broker; version 3.1.1 has no such word.
    Goodbye(u8),
    /// Acks that were held go out.
    Release,
    /// The last first.
    ReleaseReversed,
    Save,
    Restart(Disk),
    /// What is retained is gone.
    LoseRetained,
}

/// What a broker saw of its clients, and did to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub connects: u64,
    pub publishes: u64,
    pub acked: u64,
    pub refused: u64,
    pub dropped: u64,
    pub doubled: u64,
    pub reordered: u64,
    pub delivered: u64,
    /// Connections that the broker ended.
    pub cuts: u64,
    pub restarts: u64,
    pub forgotten: u64,
    /// What clients did that they must not: the first of each kind, in words.
    pub violations: Vec<String>,
}
