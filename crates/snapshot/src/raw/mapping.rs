//! Private anonymous memory by `mmap`, and the system call that snapshots it.

use std::io;
use std::ptr::{null_mut, NonNull};

/// Bytes of a page. The kernel shares and copies private memory page by page.
pub const PAGE: usize = 4096;

/// Zeros until they are written, in small pages. Untouched pages take no memory.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// How a mapping is snapshotted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SnapshotCall {
    /// The system call of this number. Only `snapshot_call` makes one, after a trial.
    Kernel(Trusted),
    /// A new mapping and a copy, to test what is around the call.
    StandIn,
}

/// Number of a system call that has shown to be `vm_snapshot`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trusted(libc::c_long);

impl Mapping {
    /// A mapping of so many bytes, at least one page.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses a place that is free.
        let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        let start = mapped(start)?;
        // SAFETY: the advice is about the mapping just made. It may fail where there are no huge
        // pages.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Mapping { start, bytes })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` leads to a mapping of so many bytes, which change through `&mut self`
        // alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// A second mapping that shares the first `bytes` bytes until one side writes a page of them.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn snapshot(&self, bytes: usize, call: SnapshotCall) -> io::Result<Mapping> {
        assert!(bytes <= self.bytes, "a snapshot of {bytes} of {} bytes", self.bytes);
        match call {
            SnapshotCall::Kernel(Trusted(number)) if bytes > 0 => self.snapshot_by(bytes, number),
            _ => {
                let mut copy = Mapping::new(bytes)?;
                copy.as_mut_slice()[..bytes].copy_from_slice(&self.as_slice()[..bytes]);
                Ok(copy)
            }
        }
    }

    fn snapshot_by(&self, bytes: usize, number: libc::c_long) -> io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: `vm_snapshot` reads its two arguments and maps new memory; it changes none. On a
        // kernel where the number means something else, `snapshot_call` names the condition.
        let start = unsafe { libc::syscall(number, self.start.as_ptr(), bytes) };
        let start = mapped(start as *mut libc::c_void)?;
        Ok(Mapping { start, bytes })
    }
}

fn mapped(start: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr() as isize != -1 => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping belongs to this value alone and is written through `&mut self`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Release of the kernel, such as `6.1.192`.
pub fn kernel_release() -> io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map(|release| release.trim().to_string())
}

/// The system call `number`, when this kernel has it as `vm_snapshot`; otherwise the reason.
///
/// The number belongs to our patch of Linux 6.1. A later kernel may mean another call by it, so the
/// release is asked first. Then two pages are snapshotted, and written on both sides.
pub fn snapshot_call(number: libc::c_long) -> Result<SnapshotCall, String> {
    let release = kernel_release().map_err(|error| format!("read the kernel's release: {error}"))?;
    if !release.starts_with("6.1.") && !release.starts_with("6.1-") {
        return Err(format!("the kernel is {release}, and the patch is for 6.1"));
    }
    let call = SnapshotCall::Kernel(Trusted(number));
    match trial(call) {
        Ok(true) => Ok(call),
        Ok(false) => Err(format!("system call {number} does not keep a snapshot apart")),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Err("the kernel has no vm_snapshot".into()),
        Err(error) => Err(format!("system call {number}: {error}")),
    }
}

/// Whether snapshot and source stay apart, both ways.
pub fn trial(call: SnapshotCall) -> io::Result<bool> {
    let mut source = Mapping::new(2 * PAGE)?;
    source.as_mut_slice()[0] = 1;
    source.as_mut_slice()[PAGE] = 2;
    let mut snapshot = source.snapshot(2 * PAGE, call)?;
    source.as_mut_slice()[0] = 3;
    snapshot.as_mut_slice()[PAGE] = 4;
    let seen = |mapping: &Mapping| (mapping.as_slice()[0], mapping.as_slice()[PAGE]);
    Ok(seen(&source) == (3, 2) && seen(&snapshot) == (1, 4))
}
