//! Things made of files, which are made again when a file has changed.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The marks by which one state of a file differs from another; None: it is not there.
type Mark = Option<(u64, u64, i64, i64, u64, u32)>;

fn mark(path: &Path) -> Mark {
    let of = std::fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.mtime(), of.mtime_nsec(), of.size(), of.mode()))
}

type Make<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;

struct State<T> {
    seen: Vec<Mark>,
    made: Result<Arc<T>, String>,
}

/// A thing made of files.
pub struct Kept<T> {
    paths: Vec<PathBuf>,
    make: Make<T>,
    state: Mutex<State<T>>,
}

impl<T> Kept<T> {
    /// Makes it for the first time.
    ///
    /// # Errors
    /// Those of `make`: a sentence that names the file.
    pub fn new(
        paths: Vec<PathBuf>,
        make: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let seen = paths.iter().map(|path| mark(path)).collect();
        let made = Arc::new(make()?);
        Ok(Kept { paths, make: Box::new(make), state: Mutex::new(State { seen, made: Ok(made) }) })
    }

    /// The thing that the files make now. Cost: a look at each file, and making it after a change.
    ///
    /// # Errors
    /// Those of making it. The one from before does not count then.
    pub fn now(&self) -> Result<Arc<T>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let seen: Vec<Mark> = self.paths.iter().map(|path| mark(path)).collect();
        if seen != state.seen || state.made.is_err() {
            let made = (self.make)().map(Arc::new);
            if let Some(why) = made.as_ref().err().filter(|why| state.made.as_ref().err() != Some(why)) {
                tracing::warn!("{why}");
            }
            *state = State { seen, made };
        }
        state.made.clone()
    }
}

/// Reads a file of bounded size. Error: a sentence that names it.
pub fn read(path: &Path, fits: impl FnOnce(&Metadata) -> Result<(), String>) -> Result<Option<Vec<u8>>, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| named(error.to_string()))?,
    };
    fits(&file.metadata().map_err(|error| named(error.to_string()))?).map_err(named)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| named(error.to_string()))?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(named(format!("it has more than {FILE_BYTES_MAX} bytes"))),
        false => Ok(Some(bytes)),
    }
}
