//! Every bound of Prometheus-compatible queries, with the relations between them.

/// Most steps of a range query after its first, as Prometheus has it.
pub const STEPS_MAX: i64 = 11_000;
/// Longest query, bytes.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;
/// Most brackets and operators of one query: bounds how deep it nests, so that
/// walking it never exhausts a thread's stack.
pub const QUERY_NESTING_MAX: usize = 250;
/// Most selectors of one query: each is a read of its own.
pub const QUERY_SELECTORS_MAX: usize = 32;
/// Series that one query may read, over all its selectors.
pub const QUERY_SERIES_MAX: usize = 10_000;
/// Samples that one query may hold: those that it reads, and those that its parts give,
/// 16 bytes each.
pub const QUERY_SAMPLES_MAX: usize = 4_000_000;
/// Samples that one query may look at in all, many times each where windows overlap and
/// a function has no faster way.
pub const QUERY_VISITS_MAX: u64 = 400_000_000;
/// Series in the answer to one of `/series`, `/labels` and the like.
pub const METADATA_SERIES_MAX: usize = 20_000;
/// `match[]` parameters of one request.
pub const MATCHES_MAX: usize = 64;
/// Longest window, offset or look-back: a hundred years, ms.
pub const SPAN_MS_MAX: i64 = 100 * 366 * 86_400_000;
/// Times lie within this many ms of 1970 on either side: sums of some of them, in
/// microseconds, stay far from the ends of an `i64`.
pub const TIME_MS_MAX: i64 = 1 << 50;
/// How long a query may take, ms; below what the API allows any request, so that the
/// answer has the form of Prometheus.
pub const QUERY_TIMEOUT_MS: u64 = 25_000;
/// Values of all answers that clients have not taken yet, KiB. One more answer that would
/// not fit is refused.
pub const ANSWERS_KIB_MAX: usize = 64 * 1024;
/// How long a client may take until it has all of an answer, ms.
pub const ANSWER_TIME_MS: u64 = 120_000;
/// Queries that are computed at a time; others wait.
pub const QUERIES_AT_A_TIME: usize = 2;
/// Queries that may wait; one more is refused.
pub const QUERIES_WAITING_MAX: usize = 32;
/// How old the newest sample of a series may be, ms, as Prometheus has it.
pub const LOOKBACK_MS: i64 = 5 * 60_000;
/// Step of subqueries that name none, ms: the evaluation interval of Prometheus.
pub const SUBQUERY_STEP_MS: i64 = 60_000;

// A query of one series at the finest resolution fits.
const _: () = assert!((STEPS_MAX as usize) < QUERY_SAMPLES_MAX);
// The values of the largest answer fit, 16 bytes each.
const _: () = assert!(QUERY_SAMPLES_MAX * 16 / 1024 < ANSWERS_KIB_MAX);
// Four of each added up, in microseconds.
const _: () = assert!((TIME_MS_MAX + SPAN_MS_MAX) < i64::MAX / 1000 / 4);
