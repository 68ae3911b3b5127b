//! A copy of this process, which shares its private memory until one side writes.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest wait for an answer of the copy.
const WAIT: Duration = Duration::from_secs(30);

/// Bytes of a question: an address and a number of bytes.
const QUESTION: usize = 2 * size_of::<usize>();

/// A copy of this process, as of the call of [`Frozen::fork`]. It ends with this value.
pub struct Frozen {
    process: libc::pid_t,
    socket: Mutex<UnixStream>,
}

impl Frozen {
    /// Copies the process. Cost: proportional to the pages of the whole process.
    pub fn fork() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(WAIT))?;
        ours.set_write_timeout(Some(WAIT))?;
        // SAFETY: the copy calls `answer` alone, which never returns, and which uses nothing that
        // another thread may have locked at this moment: no allocation, no lock, no buffer.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => answer(theirs.as_raw_fd(), ours.as_raw_fd()),
            process => Ok(Frozen { process, socket: Mutex::new(ours) }),
        }
    }

    /// Fills `out` with the bytes that were at this address. An address without memory ends the
    /// copy.
    pub fn read(&self, address: usize, out: &mut [u8]) -> io::Result<()> {
        let mut question = [0; QUESTION];
        question[..QUESTION / 2].copy_from_slice(&address.to_ne_bytes());
        question[QUESTION / 2..].copy_from_slice(&out.len().to_ne_bytes());
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.write_all(&question)?;
        socket.read_exact(out)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // SAFETY: both calls name the process that `fork` made. It is waited for here alone, so its
        // number is not another's yet.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

/// The copy: answers questions until the other end is closed, then ends.
fn answer(socket: RawFd, others: RawFd) -> ! {
    // SAFETY: only functions that a signal handler may call, over memory of this function and over
    // the asked bytes. `send` refuses an address without memory with an error.
    unsafe {
        libc::close(others);
        loop {
            let mut question = [0usize; 2];
            let mut got = 0;
            while got < QUESTION {
                match libc::read(socket, question.as_mut_ptr().cast::<u8>().add(got).cast(), QUESTION - got) {
                    n @ 1.. => got += n as usize,
                    _ => libc::_exit(0),
                }
            }
            let [mut at, mut left] = question;
            while left > 0 {
                match libc::send(socket, at as *const libc::c_void, left, libc::MSG_NOSIGNAL) {
                    n @ 1.. => (at, left) = (at + n as usize, left - n as usize),
                    _ => libc::_exit(1),
                }
            }
        }
    }
}
