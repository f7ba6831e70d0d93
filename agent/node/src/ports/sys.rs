//! The system calls of ports and clock that neither std nor tokio offers. Each function
//! here is safe to call with any arguments; nothing else in this crate's ports
//! or simulator is unsafe.
#![allow(
    unsafe_code,
    reason = "ptys, terminal modes, locks and the clock's state have no safe call in std"
)]

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits::TCP_PROBES;

/// Longest path of a pty's slave, with its closing zero.
const SLAVE_PATH_BYTES_MAX: usize = 128;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Whether the kernel says that its clock is synchronised. False where it does not say.
pub(crate) fn clock_is_synchronised() -> bool {
    // SAFETY: all of its fields are integers, for which zeroes are values.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is writable; its mode is 0, so the call only reads the clock.
    let told = unsafe { libc::adjtimex(&raw mut state) };
    told >= 0 && told != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0
}

/// A new pty: the master, non-blocking and closed on exec, and the slave's path.
pub(super) fn open_pty() -> io::Result<(File, PathBuf)> {
    // SAFETY: takes no pointer; a negative result is not used as a descriptor.
    let fd = check(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) })?;
    // SAFETY: `fd` was just opened and nothing else owns it.
    let master = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `master` is an open descriptor for the length of both calls.
    check(unsafe { libc::grantpt(master.as_raw_fd()) })?;
    // SAFETY: as above.
    check(unsafe { libc::unlockpt(master.as_raw_fd()) })?;
    let mut path: [libc::c_char; SLAVE_PATH_BYTES_MAX] = [0; SLAVE_PATH_BYTES_MAX];
    // SAFETY: the buffer is writable for the length that is passed with it.
    let status = unsafe { libc::ptsname_r(master.as_raw_fd(), path.as_mut_ptr(), path.len()) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    // SAFETY: ptsname_r succeeded, so the buffer holds a string closed by a zero.
    let path = unsafe { CStr::from_ptr(path.as_ptr()) };
    let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
    set_nonblocking(master.as_raw_fd())?;
    Ok((File::from(master), path))
}

fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl with these commands takes and returns integers only.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Opens a terminal, makes it pass every byte unchanged, and closes it again.
/// The mode stays as long as somebody has the terminal, or its master, open.
pub(super) fn make_raw(path: &Path) -> io::Result<()> {
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(path)?;
    let mut mode = std::mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the descriptor is open and `mode` is writable for one termios.
    check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), mode.as_mut_ptr()) })?;
    // SAFETY: tcgetattr succeeded, so it filled the value.
    let mut mode = unsafe { mode.assume_init() };
    // SAFETY: `mode` is a valid termios.
    unsafe { libc::cfmakeraw(&raw mut mode) };
    // SAFETY: the descriptor is open and `mode` is a valid termios.
    check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &raw const mode) })?;
    Ok(())
}

/// Takes the advisory lock of an open file for this process alone. False: held.
pub(super) fn lock_exclusive(file: &impl AsRawFd) -> io::Result<bool> {
    // SAFETY: flock takes integers only.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn set_option(
    fd: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length are those of one live integer.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), bytes) })?;
    Ok(())
}

/// Makes a connection fail when its peer is cut off: a silent one is probed,
/// and bytes that are not confirmed in time count as lost.
pub(super) fn set_peer_timeout(stream: &impl AsRawFd, timeout: Duration) -> io::Result<()> {
    let fd = stream.as_raw_fd();
    let whole = |n: u64| libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX);
    let step = whole(timeout.as_secs() / u64::from(TCP_PROBES + 1)).max(1);
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, step)?;
    set_option(
        fd,
        libc::IPPROTO_TCP,
        libc::TCP_KEEPCNT,
        whole(u64::from(TCP_PROBES)),
    )?;
    #[cfg(target_os = "linux")]
    {
        let timeout_ms = whole(timeout.as_millis().min(u128::from(u32::MAX)) as u64);
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, step)?;
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, timeout_ms)?;
    }
    Ok(())
}

/// The kernel's `struct serial_struct`.
#[cfg(target_os = "linux")]
#[repr(C)]
struct SerialStruct {
    kind: libc::c_int,
    line: libc::c_int,
    port: libc::c_uint,
    irq: libc::c_int,
    flags: libc::c_int,
    xmit_fifo_size: libc::c_int,
    custom_divisor: libc::c_int,
    baud_base: libc::c_int,
    close_delay: libc::c_ushort,
    io_type: libc::c_char,
    reserved: libc::c_char,
    hub6: libc::c_int,
    closing_wait: libc::c_ushort,
    closing_wait2: libc::c_ushort,
    iomem_base: *mut libc::c_uchar,
    iomem_reg_shift: libc::c_ushort,
    port_high: libc::c_uint,
    iomap_base: libc::c_ulong,
}

#[cfg(target_os = "linux")]
const ASYNC_LOW_LATENCY: libc::c_int = 1 << 13;

/// Asks the driver to hand bytes on at once (an FTDI chip otherwise waits
/// 16 ms). Errors where the driver has no such thing, as ptys.
#[cfg(target_os = "linux")]
pub(super) fn set_low_latency(file: &impl AsRawFd) -> io::Result<()> {
    let mut serial = std::mem::MaybeUninit::<SerialStruct>::zeroed();
    // SAFETY: the kernel writes at most one serial_struct, and this is one.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGSERIAL, serial.as_mut_ptr()) })?;
    // SAFETY: zeroed is a valid value of every field, and the call succeeded.
    let mut serial = unsafe { serial.assume_init() };
    serial.flags |= ASYNC_LOW_LATENCY;
    // SAFETY: the kernel reads one serial_struct, and this is one.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCSSERIAL, &raw const serial) })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_low_latency(_file: &impl AsRawFd) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// What a descriptor is waited for, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Waited<'fd> {
    pub fd: BorrowedFd<'fd>,
    pub want_write: bool,
    pub readable: bool,
    pub writable: bool,
    /// The other side is not there (for a pty: nobody has the slave open).
    pub hung_up: bool,
}

impl<'fd> Waited<'fd> {
    /// Waits for bytes to read, and for room to write if `want_write`.
    pub fn new(fd: BorrowedFd<'fd>, want_write: bool) -> Self {
        Self {
            fd,
            want_write,
            readable: false,
            writable: false,
            hung_up: false,
        }
    }
}

/// Waits until one of the descriptors is ready, or until the time is up.
/// An interrupting signal ends the wait early and is not an error.
pub fn wait(fds: &mut [Waited<'_>], timeout: Duration) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|waited| libc::pollfd {
            fd: waited.fd.as_raw_fd(),
            events: libc::POLLIN | if waited.want_write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    // Rounded up: a deadline 0.3 ms away must not spin through zero-length waits.
    let timeout_ms = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as libc::c_int;
    // SAFETY: the pointer and length are those of one live, writable slice.
    let ready = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout_ms,
        )
    };
    if let Err(error) = check(ready)
        && error.kind() != io::ErrorKind::Interrupted
    {
        return Err(error);
    }
    for (waited, polled) in fds.iter_mut().zip(&polled) {
        waited.readable = polled.revents & libc::POLLIN != 0;
        waited.writable = polled.revents & libc::POLLOUT != 0;
        waited.hung_up = polled.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
    }
    Ok(())
}

/// Makes a listening socket take one connection that nobody accepts, and no more.
#[cfg(test)]
pub(super) fn shorten_backlog(listener: RawFd) -> io::Result<()> {
    // SAFETY: listen takes integers only.
    check(unsafe { libc::listen(listener, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::limits::TCP_PEER_TIMEOUT;

    fn option(fd: RawFd, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let mut value: libc::c_int = -1;
        let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: both pointers are to live integers, and the length is right.
        let status =
            unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut bytes) };
        assert_eq!(status, 0, "{}", io::Error::last_os_error());
        value
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bytes_that_a_cut_off_peer_never_confirms_end_the_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_peer_timeout(&stream, TCP_PEER_TIMEOUT).unwrap();
        let limit_ms = option(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
        );
        assert_eq!(limit_ms as u128, TCP_PEER_TIMEOUT.as_millis());
    }

    #[test]
    fn a_cut_off_peer_is_noticed_in_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_peer_timeout(&stream, TCP_PEER_TIMEOUT).unwrap();
        let fd = stream.as_raw_fd();
        assert_eq!(option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        let step = option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL);
        let probes = option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT);
        let limit = TCP_PEER_TIMEOUT.as_secs() as libc::c_int;
        assert!(
            step >= 1 && step * (probes + 1) <= limit,
            "{step} s, {probes} probes"
        );
    }

    #[test]
    fn waiting_reports_what_is_ready() {
        use std::io::Write;
        use std::os::fd::AsFd;
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let look = |want_write| {
            let mut waited = [Waited::new(ours.as_fd(), want_write)];
            wait(&mut waited, Duration::ZERO).unwrap();
            (waited[0].readable, waited[0].writable, waited[0].hung_up)
        };
        assert_eq!(look(false), (false, false, false), "nothing");
        assert_eq!(look(true), (false, true, false), "room");
        theirs.write_all(b"x").unwrap();
        assert_eq!(look(false), (true, false, false), "bytes");
        drop(theirs);
        assert_eq!(look(false), (true, false, true), "bytes, and nobody there");
    }
}
