//! A file in memory, mapped by the writer and by each snapshot (rewiring, AnKer section 4.2.3).
//!
//! The writer's mapping never moves. Before the writer changes a group that snapshots share, the
//! old bytes go to a spare place of the file, and the snapshots' mappings are led there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{null_mut, NonNull};
use std::sync::Weak;

use crate::error::Error;
use crate::pool::Pool;
use crate::sync::{locked, Arc, Mutex, MutexGuard};

/// A column. The file has the groups from the beginning, and spare places from `reserve` on.
pub struct Rewired {
    spares: Arc<Spares>,
    start: NonNull<u8>,
    reserve: usize,
    groups: usize,
    /// Number of images made. A group with the same number is shared with none.
    images_made: u64,
    parted_at: Vec<u64>,
    images: Vec<Weak<Image>>,
}

/// The file and its places that are free.
struct Spares {
    file: File,
    pool: Arc<Pool>,
    group_bytes: usize,
    places: Mutex<Places>,
}

/// Places for old groups, by their offsets in the file.
struct Places {
    free: Vec<u64>,
    /// The place after the last one made.
    next: u64,
    /// Bytes counted in the pool: groups, and spare places whether free or not.
    charged: usize,
}

/// A place of the file with the old bytes of a group; free again with the last image that shows it.
struct Spare {
    place: u64,
    spares: Arc<Spares>,
}

/// The groups of a column as they were.
pub struct Image {
    start: NonNull<u8>,
    bytes: usize,
    groups: usize,
    /// The groups that are led to a spare place.
    led: Mutex<Vec<Option<Arc<Spare>>>>,
    /// Keeps the file.
    _spares: Arc<Spares>,
}

impl Rewired {
    /// A column of groups of so many bytes, a multiple of the page. It may grow up to `bytes_max`.
    pub fn new(pool: Arc<Pool>, group_bytes: usize, bytes_max: usize) -> Result<Self, Error> {
        let reserve = bytes_max.next_multiple_of(group_bytes).max(group_bytes);
        // SAFETY: the name is a string that ends in zero.
        let descriptor = unsafe { libc::memfd_create(c"chainify-snapshot".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(Error::system("memfd_create", &io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and belongs to this value.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(reserve as u64).map_err(|error| Error::system("ftruncate", &error))?;
        let start = map(None, reserve, libc::PROT_READ | libc::PROT_WRITE, &file, 0)?;
        let places = Mutex::new(Places { free: Vec::new(), next: reserve as u64, charged: 0 });
        let spares = Spares { file, pool, group_bytes, places };
        Ok(Rewired {
            spares: Arc::new(spares),
            start,
            reserve,
            groups: 0,
            images_made: 0,
            parted_at: Vec::new(),
            images: Vec::new(),
        })
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Adds a group of zeros.
    pub fn grow(&mut self) -> Result<(), Error> {
        let bytes = self.spares.group_bytes;
        if (self.groups + 1) * bytes > self.reserve {
            let usage = self.spares.pool.usage();
            return Err(Error::Full { wanted: bytes, used: usage.used, bytes_max: usage.bytes_max });
        }
        self.spares.charge()?;
        self.groups += 1;
        self.parted_at.push(self.images_made);
        Ok(())
    }

    /// A group as it is now.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn read(&self, group: usize) -> &[u8] {
        // SAFETY: the group is mapped. It changes through `write` alone, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.group_start(group), self.spares.group_bytes) }
    }

    /// A group to be changed, after it was parted from all images.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn write(&mut self, group: usize) -> Result<&mut [u8], Error> {
        let start = self.group_start(group);
        if self.parted_at[group] != self.images_made {
            self.part(group)?;
            self.parted_at[group] = self.images_made;
        }
        // SAFETY: the group is mapped, no image shows these bytes of the file any more, and
        // `&mut self` excludes every other reference through this mapping.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, self.spares.group_bytes) })
    }

    /// An image of the groups of now. Cost: one `mmap`.
    pub fn image(&mut self) -> Result<Arc<Image>, Error> {
        let bytes = self.groups * self.spares.group_bytes;
        let start = map(None, bytes.max(1), libc::PROT_READ, &self.spares.file, 0)?;
        let led = Mutex::new(vec![None; self.groups]);
        let image = Arc::new(Image { start, bytes, groups: self.groups, led, _spares: self.spares.clone() });
        self.images.retain(|other| other.strong_count() > 0);
        self.images.push(Arc::downgrade(&image));
        self.images_made += 1;
        Ok(image)
    }

    /// Leads every image that shares a group to a copy of its bytes. Where that fails, the images
    /// that were led there already show the same bytes as before.
    fn part(&mut self, group: usize) -> Result<(), Error> {
        let images: Vec<Arc<Image>> = self.images.iter().filter_map(Weak::upgrade).collect();
        let mut spare = None;
        for image in images {
            let mut led = image.led();
            if led.get(group).is_none_or(Option::is_some) {
                continue;
            }
            let spare = match &spare {
                Some(spare) => Arc::clone(spare),
                None => spare.insert(Arc::new(Spares::filled(&self.spares, self.read(group))?)).clone(),
            };
            let bytes = self.spares.group_bytes;
            // The replacement is one step for readers: the kernel holds the lock of the address
            // space, which a page fault waits for. A group shows the same bytes before and after. A
            // kernel at its bound of mappings refuses before it removes the old one.
            let at = image.start.as_ptr().wrapping_add(group * bytes);
            map(NonNull::new(at), bytes, libc::PROT_READ, &self.spares.file, spare.place)?;
            led[group] = Some(spare);
        }
        Ok(())
    }

    fn group_start(&self, group: usize) -> *mut u8 {
        assert!(group < self.groups, "group {group} of {}", self.groups);
        self.start.as_ptr().wrapping_add(group * self.spares.group_bytes)
    }
}

impl Spares {
    /// A spare place with these bytes in it.
    fn filled(spares: &Arc<Self>, bytes: &[u8]) -> Result<Spare, Error> {
        let free = spares.places().free.pop();
        let place = match free {
            Some(place) => place,
            None => spares.another()?,
        };
        let spare = Spare { place, spares: spares.clone() };
        spares.file.write_all_at(bytes, place).map_err(|error| Error::system("pwrite", &error))?;
        Ok(spare)
    }

    fn another(&self) -> Result<u64, Error> {
        self.charge()?;
        let mut places = self.places();
        places.next += self.group_bytes as u64;
        Ok(places.next - self.group_bytes as u64)
    }

    /// Counts one more group of the file, until the file has gone.
    fn charge(&self) -> Result<(), Error> {
        self.pool.charge(self.group_bytes)?;
        self.places().charged += self.group_bytes;
        Ok(())
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        locked(&self.places)
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.pool.discharge(self.places().charged);
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.spares.places().free.push(self.place);
    }
}

impl Image {
    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    fn led(&self) -> MutexGuard<'_, Vec<Option<Arc<Spare>>>> {
        locked(&self.led)
    }
}

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped. The writer leads a group elsewhere before it changes
        // the bytes that the group showed, so they never change.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value. It goes before the spare places do.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes.max(1)) };
    }
}

impl Drop for Rewired {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserve) };
    }
}

/// Maps a part of the file: at a place that the kernel chooses, or over a group of an image.
fn map(at: Option<NonNull<u8>>, bytes: usize, protection: i32, file: &File, from: u64) -> Result<NonNull<u8>, Error> {
    let (place, fixed) = at.map_or((null_mut(), 0), |at| (at.as_ptr(), libc::MAP_FIXED));
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | fixed;
    let from = from as libc::off_t;
    // SAFETY: without a place the kernel chooses a free one. A given place is a group of an image
    // that is alive, so nothing else is replaced.
    let start = unsafe { libc::mmap(place.cast(), bytes, protection, flags, file.as_raw_fd(), from) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr() as isize != -1 => Ok(start),
        _ => Err(Error::system("mmap", &io::Error::last_os_error())),
    }
}

// SAFETY: the mapping is written through `&mut Rewired` alone.
unsafe impl Send for Rewired {}
// SAFETY: an image is read only; its mapping is replaced under the lock of `led`.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}
