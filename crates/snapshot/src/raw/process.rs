//! A copy of this process, which shares its private memory until one side writes.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::sync::{locked, Mutex};

/// The longest wait for an answer of the copy.
const WAIT: Duration = Duration::from_secs(30);

/// Bytes of a question: an address and a number of bytes.
const QUESTION: usize = 2 * size_of::<usize>();

/// A copy of this process, as of the call of [`Frozen::fork`]. It ends with this value.
pub struct Frozen {
    process: libc::pid_t,
    /// `None` after a failure: bytes that come later may answer an earlier question.
    socket: Mutex<Option<UnixStream>>,
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
            process => Ok(Frozen { process, socket: Mutex::new(Some(ours)) }),
        }
    }

    /// Fills `out` with the bytes that were at this address. An address without memory ends the
    /// copy.
    pub fn read(&self, address: usize, out: &mut [u8]) -> io::Result<()> {
        let mut question = [0; QUESTION];
        question[..QUESTION / 2].copy_from_slice(&address.to_ne_bytes());
        question[QUESTION / 2..].copy_from_slice(&out.len().to_ne_bytes());
        let mut socket = locked(&self.socket);
        let mut stream = socket.take().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(&question)?;
        stream.read_exact(out)?;
        *socket = Some(stream);
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_bytes_of_its_moment_until_it_is_lost() {
        let mut bytes = vec![1u8; 100_000];
        let frozen = Frozen::fork().unwrap();
        bytes.fill(2);
        let mut seen = vec![0; bytes.len()];
        frozen.read(bytes.as_ptr() as usize, &mut seen).unwrap();
        assert!(seen.iter().all(|byte| *byte == 1));
        assert!(frozen.read(0, &mut seen).is_err(), "no memory is at 0");
        let error = frozen.read(bytes.as_ptr() as usize, &mut seen).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "the copy is not asked again");
        assert_eq!(bytes[0], 2);
    }
}
