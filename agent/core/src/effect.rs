//! Everything that goes into and comes out of the gateway's core: one `Input`,
//! one `Effect`. A world test and the real process speak the same two enums.

use std::fmt;

use forebay_wire::ids::DeviceUid;

use crate::alarms::AlarmRules;
pub use crate::changes::{
    RowText, SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition, SourceState,
    StaticTable,
};
use crate::clock::ClockRules;
use crate::commit::CommitToken;
use crate::devices::DeviceRequest;
use crate::engine::config::EngineConfig;
use crate::forward::{ConnNo, DestinationId, ForwardConfig, Refusal, SendNo};
use crate::import::{ImportAnswer, ImportId, ImportRequest};
use crate::ingest::Router;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::payload::GatewayName;
pub use crate::query::QueryId;
use crate::query::{Answer, Names, PlanError, PlanRequest, Planned, Query};
use crate::retention::SpaceConfig;
use crate::store::{SegmentId, StoreError, StoreEvent, StoreOpened, WriteBatch};
use crate::units::{Offset, PortId, Span};

/// What the gateway is told at its start.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    pub gateway: GatewayName,
    pub router: Router,
    /// How long a record may wait for others before its block is written.
    pub linger: Span,
    pub engine: EngineConfig,
    /// Where the log is sent to, at most
    /// [`DESTINATIONS_MAX`](crate::limits::DESTINATIONS_MAX); none: nothing is forwarded.
    pub forward: Vec<ForwardConfig>,
    /// Names that operators gave to devices.
    pub names: Names,
    /// How much room the log may take.
    pub space: SpaceConfig,
    /// When the gateway's clock is trusted.
    pub clock: ClockRules,
    /// Where changes of tables come from, at most
    /// [`SOURCES_MAX`](crate::limits::SOURCES_MAX); a table is of one source, or of `tables`.
    pub sources: Vec<SourceConfig>,
    /// Tables whose rows stand in the config.
    pub tables: Vec<StaticTable>,
    /// What devices say in their logs: 0 nothing, 1 errors, to
    /// [`LOG_LEVEL_MAX`](forebay_wire::limits::LOG_LEVEL_MAX), all.
    pub device_log: u8,
    /// When an operator is told that something is wrong.
    pub alarms: AlarmRules,
}

impl GatewayConfig {
    /// A gateway that keeps readings, and does nothing else yet.
    #[must_use]
    pub fn new(gateway: GatewayName, partitions: u16, linger: Span) -> Self {
        Self {
            gateway,
            router: Router::new(partitions),
            linger,
            engine: EngineConfig::default(),
            forward: Vec::new(),
            names: Names::default(),
            space: SpaceConfig::default(),
            clock: ClockRules::default(),
            sources: Vec::new(),
            tables: Vec::new(),
            device_log: 0,
            alarms: AlarmRules::default(),
        }
    }
}

/// What the store said when it was opened.
#[derive(Debug, Clone)]
pub struct Opened {
    pub store: StoreOpened,
    /// All meta entries of the agent.
    pub meta: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Names a read of the log on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchToken(pub u64);

/// What happens to the gateway.
#[derive(Debug)]
pub enum Input<'a> {
    /// A port is open; `baud` is the rate of a real UART, `None` where bytes are not
    /// paced by one (TCP, a pty, USB CDC).
    PortOpened {
        port: PortId,
        baud: Option<u32>,
    },
    PortBytes(PortId, &'a [u8]),
    PortClosed(PortId),
    /// The batch is durable.
    Committed(CommitToken),
    Fetched(FetchToken, Vec<StoredBlock>),
    /// What the store says unasked.
    Store(StoreEvent),
    /// The store gave up on what this names.
    StoreFailed(StoreError),
    /// Messages of `conn` are taken, at most `window` unacked.
    BrokerConnected {
        dest: DestinationId,
        conn: ConnNo,
        window: u16,
    },
    BrokerAcked(DestinationId, ConnNo, SendNo),
    BrokerRefused(DestinationId, ConnNo, SendNo, Refusal),
    BrokerDisconnected {
        dest: DestinationId,
        conn: ConnNo,
        reason: String,
    },
    /// The broker does not let us in, or does not let us read a topic: a sentence that
    /// says who must do what. The connection, if there was one, is told of besides.
    BrokerDenied {
        dest: DestinationId,
        why: String,
    },
    BrokerMessage {
        dest: DestinationId,
        topic: &'a str,
        payload: &'a [u8],
    },
    Query(QueryId, Query),
    /// What a reader beside the loop asks for; answered by [`Effect::Planned`] at once.
    Plan(QueryId, PlanRequest),
    /// Answered by [`Effect::Answer`] as well, after some seconds at the latest.
    Device(QueryId, DeviceRequest),
    /// Readings that come in batches.
    Import(ImportId, ImportRequest),
    /// What a source has read. At most
    /// [`SOURCE_BATCHES_MAX`](crate::limits::SOURCE_BATCHES_MAX) of a source wait for
    /// [`Effect::ChangesDurable`].
    Changes(SourceNo, SourceBatch),
    /// How a source is doing.
    SourceState {
        source: SourceNo,
        state: SourceState,
        /// What it still has to hand over, where that is known.
        lag_bytes: Option<u64>,
    },
    /// The operating system says that its clock is synchronised.
    ClockSynchronised,
    /// The time of `next_deadline` has come.
    Deadline,
    /// No more readings are taken; what is here is written.
    Drain,
    /// Nothing more is handed to the broker; what is on its way may be answered.
    Hold,
}

/// What the gateway wants done.
#[derive(Debug, PartialEq)]
pub enum Effect {
    PortWrite(PortId, Vec<u8>),
    Commit(CommitToken, WriteBatch),
    Fetch {
        token: FetchToken,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    },
    /// Remove these segments for good.
    Remove(Vec<SegmentId>),
    Publish {
        dest: DestinationId,
        conn: ConnNo,
        send: SendNo,
        topic: String,
        payload: Vec<u8>,
        user_properties: Vec<(String, String)>,
    },
    /// Drop the connection and start a new one.
    BrokerReset(DestinationId, ConnNo, String),
    Answer(QueryId, Answer),
    Planned(QueryId, Result<Planned, PlanError>),
    /// A frame of a device's log, as `defmt` encoded it.
    DeviceLog {
        uid: DeviceUid,
        /// Which firmware said it.
        build_id: [u8; 8],
        frame: Vec<u8>,
    },
    /// The source may start: behind this position, and from its beginning where there is
    /// none. Once per run.
    SourceStart {
        source: SourceNo,
        position: Option<SourcePosition>,
    },
    /// Everything up to this position of a batch is durable: confirm it at the source.
    ChangesDurable {
        source: SourceNo,
        position: SourcePosition,
    },
    /// What became of an import's request; what was taken is durable.
    Imported(ImportId, ImportAnswer),
    /// Something an operator should read.
    Note(Note),
    /// The store failed: stop, say so, and be started again.
    Stop(StoreError),
}

/// A sentence for the operator: what is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(pub String);

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
