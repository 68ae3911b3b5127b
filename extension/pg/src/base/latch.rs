//! Waiting for a socket and for everything that may interrupt a backend at the same time.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use pgrx::pg_sys;

/// The event to wait for on the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Readable,
    Writable,
}

/// Why waiting ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    Socket,
    Deadline,
}

/// Waits until the socket is ready or the deadline has passed.
///
/// Statement cancel, statement timeout, termination of the backend and of the postmaster work
/// meanwhile: the first three raise from here, so a caller must own nothing that unwinding does not
/// release.
pub fn wait_for_socket(socket: BorrowedFd<'_>, interest: Interest, deadline: Instant) -> Woken {
    let socket_event = match interest {
        Interest::Readable => pg_sys::WL_SOCKET_READABLE,
        Interest::Writable => pg_sys::WL_SOCKET_WRITEABLE,
    };
    loop {
        let fired = wait(
            socket_event,
            socket.as_raw_fd(),
            deadline.saturating_duration_since(Instant::now()),
        );
        pg_sys::check_for_interrupts!();
        if fired & socket_event != 0 {
            return Woken::Socket;
        }
        if Instant::now() >= deadline {
            return Woken::Deadline;
        }
    }
}

/// Waits for the time given, or shorter; interrupts as in [`wait_for_socket`].
pub fn pause(time: Duration) {
    wait(0, pg_sys::PGINVALID_SOCKET, time);
    pg_sys::check_for_interrupts!();
}

/// One wait; returns the events that fired. The latch is reset before the caller looks at
/// interrupts, so none is lost.
fn wait(socket_event: u32, socket: i32, time: Duration) -> u32 {
    let events =
        socket_event | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // Rounded up, so that a wait does not end just before its deadline and spin.
    let millis = i64::try_from(time.as_micros().div_ceil(1000))
        .unwrap_or(i64::MAX)
        .min(3_600_000);
    // SAFETY: MyLatch is this process's own latch for the whole life of a backend, and both calls
    // are made on its only PostgreSQL thread. The socket is open: the caller borrows it, or passes
    // none and asks for no socket event.
    unsafe {
        let fired = pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            events as i32,
            socket,
            millis,
            pg_sys::PG_WAIT_EXTENSION,
        );
        if fired as u32 & pg_sys::WL_LATCH_SET != 0 {
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        fired as u32
    }
}
