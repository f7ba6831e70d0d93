//! The local socket: one JSON line asks, one JSON line answers. A Unix socket that
//! only its owner may open, so nothing listens on a network.
//!
//! Bound: [`CONNECTIONS_MAX`] at a time, [`REQUEST_BYTES_MAX`] per request,
//! [`ANSWER_BYTES_MAX`] per answer, [`IDLE_MAX`] without a word. Knows no question.

use std::fs::Permissions;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::limits::{
    BOOTS_PER_DEVICE_MAX, CHANNEL_NAME_BYTES_MAX, DEVICES_MAX, LIVE_SERIES_MAX, PARTITIONS_MAX,
    UNIT_NAME_BYTES_MAX,
};
use forebay_core::query::Answer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::exit::{Exit, Failure};

/// Longest path of a socket that the kernel takes, bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Connections served at the same time.
pub const CONNECTIONS_MAX: usize = 32;
/// Longest request line: a batch of an import is the longest.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Longest answer line that a client takes: all that a status may have to tell.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What a channel takes of a status beside its names, bytes, and a device with the accounts
/// of its boots. In JSON a byte of a name may be six.
const CHANNEL_BYTES_MAX: usize = 200 + 6 * (CHANNEL_NAME_BYTES_MAX + UNIT_NAME_BYTES_MAX);
const DEVICE_BYTES_MAX: usize = 4096 + 512 * BOOTS_PER_DEVICE_MAX;
const _: () = assert!(
    PARTITIONS_MAX * LIVE_SERIES_MAX * CHANNEL_BYTES_MAX + DEVICES_MAX * DEVICE_BYTES_MAX
        < ANSWER_BYTES_MAX
);
/// A connection that says nothing for so long is closed; a client waits as long
/// for its answer.
pub const IDLE_MAX: Duration = Duration::from_secs(30);

/// One question and the way back for its answer.
#[derive(Debug)]
pub struct Asked {
    pub request: Value,
    pub answer: oneshot::Sender<Answer>,
}

/// A socket that is being served; dropping it removes the file.
#[derive(Debug)]
pub struct LocalSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl LocalSocket {
    /// Serves `path` on the current runtime and hands each question to `asked`.
    /// Who owns the data directory calls this: a file left by a dead process is
    /// taken over.
    ///
    /// # Errors
    /// When the system does not give the socket.
    pub fn serve(path: &Path, asked: mpsc::Sender<Asked>) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let task = tokio::spawn(accept(listener, asked));
        let path = path.to_path_buf();
        Ok(Self { path, task })
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Best effort: the next start takes a leftover file over.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Asks who answers a socket's questions, from within its process; `None` when it has ended.
pub(crate) async fn ask_within(asked: &mpsc::Sender<Asked>, request: Value) -> Option<Answer> {
    let (answer, answered) = oneshot::channel();
    asked.send(Asked { request, answer }).await.ok()?;
    answered.await.ok()
}

async fn accept(listener: UnixListener, asked: mpsc::Sender<Asked>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        if let Ok((stream, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                // A client that goes away is no fault of ours.
                let _ = converse(stream, &asked).await;
                drop(place);
            });
        }
    }
}

async fn converse(stream: UnixStream, asked: &mpsc::Sender<Asked>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = tokio::io::BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut read).take(REQUEST_BYTES_MAX as u64 + 1);
        let got = tokio::time::timeout(IDLE_MAX, bounded.read_until(b'\n', &mut line));
        let got = got.await.map_err(|_| io::ErrorKind::TimedOut)??;
        if got == 0 {
            return Ok(());
        }
        let answer = if line.len() > REQUEST_BYTES_MAX {
            Err(format!("a request has at most {REQUEST_BYTES_MAX} bytes"))
        } else {
            answer(&line, asked).await
        };
        let is_over = line.len() > REQUEST_BYTES_MAX;
        let line = match answer {
            Ok(said) => format!("{{\"ok\":{said}}}\n"),
            Err(text) => format!("{}\n", json!({ "error": text })),
        };
        write.write_all(line.as_bytes()).await?;
        if is_over {
            return Ok(());
        }
    }
}

async fn answer(line: &[u8], asked: &mpsc::Sender<Asked>) -> Answer {
    let request = serde_json::from_slice(line).map_err(|e| format!("not a JSON line: {e}"))?;
    let (answer, answered) = oneshot::channel();
    let stopping = || String::from("the process is stopping");
    let asked = asked.send(Asked { request, answer });
    asked.await.map_err(|_| stopping())?;
    answered.await.map_err(|_| stopping())?
}

/// Asks the process behind `path` and waits for its answer.
///
/// # Errors
/// A sentence: nobody listens there ([`Exit::Unreachable`]), or what the process said.
pub fn ask(path: &Path, request: &Value) -> Result<Value, Failure> {
    ask_line(path, &request.to_string(), IDLE_MAX)
}

/// As [`ask`], with the request as a line of JSON without its end, and for what may
/// take longer.
///
/// # Errors
/// As [`ask`], also when there is no answer after `patience`.
pub fn ask_line(path: &Path, request: &str, patience: Duration) -> Result<Value, Failure> {
    let shown = path.display();
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the path of the socket has {bytes} bytes, and the kernel takes \
             {SOCKET_PATH_BYTES_MAX}: {shown}"
        )));
    }
    let mut stream = Blocking::connect(path).map_err(|error| unconnected(path, &error))?;
    let told = |error: io::Error| broken(path, &error, patience);
    stream.set_read_timeout(Some(patience)).map_err(told)?;
    stream.set_write_timeout(Some(patience)).map_err(told)?;
    stream
        .write_all(format!("{request}\n").as_bytes())
        .map_err(told)?;
    let line = read_answer(stream, ANSWER_BYTES_MAX).map_err(told)?;
    let mut answer: Value =
        serde_json::from_str(&line).map_err(|error| format!("{shown}: bad answer: {error}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(text) => Err(text.to_owned().into()),
        None => Ok(answer["ok"].take()),
    }
}

/// Why nobody can be asked.
fn unconnected(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Failure::usage(format!(
            "the socket {shown} may be opened by its owner only ({error}): run this as the user \
             that the agent or receiver runs as, for example with sudo -u"
        ));
    }
    let text = format!(
        "nobody answers at {shown} ({error}): is `forebay run` or `forebay upstream` running \
         with this config or socket?"
    );
    Failure::new(Exit::Unreachable, text)
}

/// What an error on the way to an answer means.
fn broken(path: &Path, error: &io::Error, patience: Duration) -> Failure {
    use io::ErrorKind::{
        BrokenPipe, ConnectionReset, FileTooLarge, TimedOut, UnexpectedEof, WouldBlock,
    };
    let shown = path.display();
    let is_one_of = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    if is_one_of(&[WouldBlock, TimedOut]) {
        return Failure::from(format!(
            "the process behind {shown} gives no answer in {patience:?}: it is stopped, or has \
             more to do than it can; ask again, and restart it where that does not help"
        ));
    }
    if is_one_of(&[BrokenPipe, ConnectionReset, UnexpectedEof]) {
        let text = format!("the process behind {shown} ended before it answered");
        return Failure::new(Exit::Unreachable, text);
    }
    if is_one_of(&[FileTooLarge]) {
        return Failure::from(format!(
            "the answer of {shown} is longer than {} MiB, which is more than is taken: ask for \
             less, such as one device",
            ANSWER_BYTES_MAX >> 20
        ));
    }
    Failure::from(format!("{shown}: {error}"))
}

/// An answer, with the end of its line.
fn read_answer(from: impl io::Read, bytes_max: usize) -> io::Result<String> {
    let mut line = String::new();
    let read = BufReader::new(from.take(bytes_max as u64)).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(line),
        false if read == bytes_max => Err(io::ErrorKind::FileTooLarge.into()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a status of 120,000 channels takes, and more.
    const LONG_BYTES: usize = 20 << 20;

    /// Serves a socket whose answers echo the question, and runs `client` beside it.
    fn with_echo<T: Send + 'static>(client: impl FnOnce(PathBuf) -> T + Send + 'static) -> T {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s.sock");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let (sender, mut asked) = mpsc::channel::<Asked>(4);
            let _socket = LocalSocket::serve(&path, sender).expect("a socket");
            tokio::spawn(async move {
                while let Some(asked) = asked.recv().await {
                    let refuse = asked.request == json!("refuse");
                    let answer = match asked.request.as_str() {
                        Some("long") => json!("x".repeat(LONG_BYTES)),
                        _ => asked.request,
                    };
                    let answer = (!refuse).then(|| answer.into());
                    let _ = asked.answer.send(answer.ok_or_else(|| String::from("no")));
                }
            });
            let client = tokio::task::spawn_blocking(move || client(path));
            client.await.expect("the client ends")
        })
    }

    #[test]
    fn questions_are_answered_and_refusals_told() {
        let (echoed, refused) = with_echo(|path| {
            let echoed = ask(&path, &json!({"a": 1}));
            (echoed, ask(&path, &json!("refuse")))
        });
        assert_eq!(echoed, Ok(json!({"a": 1})));
        assert_eq!(refused, Err(String::from("no").into()));
    }

    #[test]
    fn an_answer_of_many_channels_is_taken() {
        let answer = with_echo(|path| ask(&path, &json!("long"))).expect("an answer");
        assert_eq!(answer.as_str().map(str::len), Some(LONG_BYTES));
    }

    #[test]
    fn a_request_is_taken_up_to_its_limit() {
        for (len, taken) in [
            (REQUEST_BYTES_MAX - 1, true),
            (REQUEST_BYTES_MAX, true),
            (REQUEST_BYTES_MAX + 1, false),
        ] {
            // Two quotes and the newline belong to the line.
            let text = "x".repeat(len - 3);
            let answer = with_echo(move |path| ask(&path, &json!(text)));
            assert_eq!(answer.is_ok(), taken, "{len}: {:?}", answer.err());
        }
    }

    #[test]
    fn an_answer_is_taken_up_to_its_limit_and_whole_only() {
        use io::ErrorKind::{FileTooLarge, UnexpectedEof};
        for (name, line, want) in [
            ("limit - 1", "123456\n", Ok(7)),
            ("limit", "1234567\n", Ok(8)),
            ("limit + 1", "12345678\n", Err(FileTooLarge)),
            ("it ends in the middle", "1234", Err(UnexpectedEof)),
            ("there is none", "", Err(UnexpectedEof)),
        ] {
            let read = read_answer(line.as_bytes(), 8);
            let read = read.map(|line| line.len()).map_err(|error| error.kind());
            assert_eq!(read, want, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_connection_is_said() {
        use io::ErrorKind::{BrokenPipe, FileTooLarge, PermissionDenied, WouldBlock};
        let path = Path::new("/run/s.sock");
        let patience = Duration::from_secs(30);
        let told = |kind: io::ErrorKind| broken(path, &kind.into(), patience);
        for (failure, exit, word) in [
            (told(WouldBlock), Exit::Failed, "no answer in 30s"),
            (told(BrokenPipe), Exit::Unreachable, "ended before"),
            (told(FileTooLarge), Exit::Failed, "longer than 256 MiB"),
            (
                unconnected(path, &PermissionDenied.into()),
                Exit::Usage,
                "its owner",
            ),
        ] {
            assert_eq!(failure.exit, exit, "{failure}");
            assert!(failure.text.contains(word), "{failure}");
            assert!(failure.text.contains("/run/s.sock"), "{failure}");
        }
    }

    #[test]
    fn an_agent_that_ends_in_the_middle_of_an_answer_is_not_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = BufReader::new(&stream).read_line(&mut String::new());
            stream.write_all(b"{\"ok\":[1,").expect("written");
        });
        let failure = ask(&path, &json!(1)).expect_err("half an answer is none");
        agent.join().expect("it ended");
        assert_eq!(failure.exit, Exit::Unreachable, "{failure}");
    }

    #[test]
    fn garbage_is_answered_with_a_sentence() {
        let answer = with_echo(|path| {
            let mut stream = Blocking::connect(path).expect("a connection");
            stream.write_all(b"\xff{nonsense\n").expect("written");
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).map(|_| line)
        });
        assert!(answer.is_ok_and(|line| line.contains("not a JSON line")));
    }

    #[test]
    fn the_path_of_a_socket_at_its_limit() {
        for (bytes, exit) in [
            (SOCKET_PATH_BYTES_MAX - 1, Exit::Unreachable),
            (SOCKET_PATH_BYTES_MAX, Exit::Unreachable),
            (SOCKET_PATH_BYTES_MAX + 1, Exit::Usage),
        ] {
            let path = format!("/{}", "x".repeat(bytes - 1));
            let failure = ask(Path::new(&path), &json!(1)).expect_err("nobody is there");
            assert_eq!(failure.exit, exit, "{failure}");
        }
    }

    #[test]
    fn nobody_there_is_said() {
        let answer = ask(Path::new("/nonexistent/s.sock"), &json!(1));
        let failure = answer.expect_err("nobody is there");
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(
            failure.text.contains("nobody answers at /nonexistent"),
            "{failure}"
        );
    }
}
