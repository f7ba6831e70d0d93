//! Streams as server-sent events, along the durable head.
//!
//! Always holds: changes of a stream come in its order, each once; the id of an event is
//! behind everything that came before it, of all streams of the request; nothing more is
//! asked of the agent before the client has taken what was there. Bound: `streams` of the
//! config; one answer per stream, of at most FOLLOW_LINES_MAX changes.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use forebay_core::follow::{FollowFrom, FollowRequest};
use forebay_core::limits::{FOLLOW_LINES_MAX, FOLLOWERS_MAX};
use forebay_core::log::topic::READINGS;
use forebay_core::query::{Names, Query};
use forebay_core::units::{Span, TopicId};
use http_body::Frame;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc};

use super::endpoints::STREAM;
use super::events::{Narrow, write_events};
use super::given::Given;
use super::limits::{HEARTBEAT, RETRY_MS};
use super::places::{Place, Start};
use super::problem::{Kind, Problem};
use super::{App, ask};
use crate::agent::questions;

/// What the streams of one client share.
struct Client {
    app: Arc<App>,
    /// Of devices, as they were when it began.
    names: Names,
    narrow: Narrow,
    /// Behind what was handed to the client; held until it has room for more, so that no
    /// id overtakes the events of another stream.
    places: Mutex<Vec<Place>>,
    out: mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
}

/// `GET /api/v1/stream`
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let given = Given::read(&STREAM, query.as_deref(), ask::now())?;
    let start = start(&given, &headers)?;
    let names: Vec<String> = given.all("stream").map(str::to_owned).collect();
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let permit = Arc::clone(&app.streams).try_acquire_many_owned(count);
    let permit = permit.map_err(|_| {
        Problem::busy("as many streams are followed as streams in [api] lets: end one of them")
    })?;
    let known = app.reads.names().await.map_err(ask::problem)?;
    let narrow = Narrow::new(&given, &known)?;
    let mut begun = Vec::new();
    for name in names {
        let (from, topic) = start.of(&name);
        begun.push(begin(&app, name, from, topic).await?);
    }
    let (out, taken) = mpsc::channel(1);
    let places = begun.iter().map(|(place, _)| place.clone()).collect();
    let client = Arc::new(Client {
        app,
        names: known,
        narrow,
        places: Mutex::new(places),
        out,
        _permit: permit,
    });
    for (at, (_, first)) in begun.into_iter().enumerate() {
        tokio::spawn(Arc::clone(&client).follow(at, first));
    }
    let hello = format!("retry: {RETRY_MS}\n\n").into_bytes().into();
    let body = Body::new(Events {
        first: Some(hello),
        taken,
    });
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

fn start(given: &Given, headers: &HeaderMap) -> Result<Start, Problem> {
    let last = headers.get("last-event-id");
    let Some(last) = last.filter(|last| !last.is_empty()) else {
        let from = given.text("from").unwrap_or_default();
        return Start::parse(from).map_err(|what| {
            let detail = format!("from={from} {what}");
            Problem::new(Kind::BadParameter, detail)
        });
    };
    let start = last.to_str().ok().and_then(|text| Start::parse(text).ok());
    start.ok_or_else(|| {
        let detail = "the header Last-Event-ID must be the id of an event of this stream";
        Problem::new(Kind::BadRequest, detail)
    })
}

/// The first answer, which says whether the stream is there and where it stands.
async fn begin(
    app: &App,
    stream: String,
    from: FollowFrom,
    topic: Option<TopicId>,
) -> Result<(Place, Value), Problem> {
    let mut place = Place {
        stream,
        topic: topic.unwrap_or(READINGS),
        next: BTreeMap::new(),
    };
    let has_place = matches!(from, FollowFrom::At(_));
    let answer = ask_changes(app, &place, from, topic, Span(0)).await;
    let answer = answer.map_err(|problem| refusal(problem, has_place))?;
    go_on(&mut place, &answer, "from");
    place.topic = topic_of(&answer).unwrap_or(place.topic);
    Ok((place, answer))
}

/// What is said against a stream: that it has no such place, or that there is none.
fn refusal(problem: Problem, has_place: bool) -> Problem {
    if problem.kind != Kind::BadParameter {
        return problem;
    }
    if problem.detail.starts_with(&FOLLOWERS_MAX.to_string()) {
        return Problem::busy(problem.detail);
    }
    let kind = if has_place {
        Kind::BadParameter
    } else {
        Kind::NoSuchName
    };
    Problem::new(kind, problem.detail)
}

async fn ask_changes(
    app: &App,
    place: &Place,
    from: FollowFrom,
    topic: Option<TopicId>,
    wait: Span,
) -> Result<Value, Problem> {
    // No offset is asked of any partition: with the first row of each.
    let from = match from {
        FollowFrom::At(at) if at.is_empty() => FollowFrom::Beginning,
        from @ (FollowFrom::At(_) | FollowFrom::Beginning | FollowFrom::Now) => from,
    };
    let request = FollowRequest {
        stream: place.stream.clone(),
        table: None,
        topic,
        from,
        lines_max: FOLLOW_LINES_MAX,
        wait,
    };
    ask::ask(app, questions::write(&Query::Follow(request))).await
}

fn topic_of(answer: &Value) -> Option<TopicId> {
    let topic = answer["topic"].as_u64()?;
    u16::try_from(topic).ok().map(TopicId)
}

/// Moves a place to what a member of an answer says; one of nothing stays.
fn go_on(place: &mut Place, answer: &Value, member: &str) {
    let text = answer[member].as_str().unwrap_or_default();
    if let Ok(FollowFrom::At(next)) = FollowFrom::parse(text) {
        place.next = next;
    }
}

impl Client {
    /// Hands on one stream until the client is gone or the agent stops.
    async fn follow(self: Arc<Self>, at: usize, first: Value) {
        let mut answer = first;
        loop {
            if !self.hand(at, &answer).await {
                return;
            }
            let place = self.places.lock().await[at].clone();
            let (from, topic) = (FollowFrom::At(place.next.clone()), Some(place.topic));
            let wait = Span(i64::try_from(HEARTBEAT.as_micros()).unwrap_or(i64::MAX));
            let asked = ask_changes(&self.app, &place, from, topic, wait);
            answer = tokio::select! {
                () = self.out.closed() => return,
                asked = asked => match asked {
                    Ok(answer) => answer,
                    // The client comes again, and is told.
                    Err(_) => return,
                },
            };
        }
    }

    /// Hands on an answer; false when the client is gone.
    async fn hand(&self, at: usize, answer: &Value) -> bool {
        let mut places = self.places.lock().await;
        let mut out = Vec::new();
        go_on(&mut places[at], answer, "from");
        write_events(
            &mut places,
            at,
            answer,
            (&self.narrow, &self.names),
            &mut out,
        );
        go_on(&mut places[at], answer, "next");
        if let Some(moved) = answer.get("moved") {
            go_on(&mut places[at], moved, "next");
            places[at].topic = topic_of(moved).unwrap_or(places[at].topic);
        }
        if out.is_empty() {
            // Nothing came for a while, or nothing that is wanted.
            out.extend_from_slice(b":\n\n");
        }
        self.out.send(out.into()).await.is_ok()
    }
}

/// The body: what the streams hand over.
struct Events {
    first: Option<Bytes>,
    taken: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let polled = self.taken.poll_recv(context);
        polled.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
