//! Chunks, pool and buffers under every order in which threads can meet (loom). The files are those
//! of the crate, with loom's primitives in place of the standard library's.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, unreachable_pub, reason = "the model uses a part of each file")]

#[path = "../../src/chunk.rs"]
mod chunk;
#[path = "../../src/directory.rs"]
mod directory;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/pool.rs"]
mod pool;

mod raw;

mod sync {
    pub use loom::sync::{Arc, Mutex, MutexGuard};

    pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// As `Arc::make_mut`, which loom lacks.
    pub fn owned<T: Clone>(shared: &mut Arc<T>) -> &mut T {
        if Arc::get_mut(shared).is_none() {
            let copy = T::clone(shared);
            *shared = Arc::new(copy);
        }
        Arc::get_mut(shared).unwrap()
    }
}

/// For the documentation of the files above.
pub use error::Error;
pub use pool::Pool;

use chunk::Chunk;
use directory::Directory;
use loom::thread;
use raw::append::Tail;
use sync::Arc;

const BYTES: usize = 64;

fn used(pool: &Pool) -> usize {
    pool.usage().used / BYTES
}

fn directory(pool: &Arc<Pool>) -> Directory {
    let mut directory = Directory::default();
    directory.push(Arc::new(Chunk::zeroed(pool, BYTES).unwrap()));
    directory
}

fn read(directory: &Directory) -> u8 {
    (**directory.chunk(0)).as_ref()[BYTES - 1]
}

/// V1 and V4: a reader that lets go at any moment of a write saw the old bytes, and one chunk is
/// left.
#[test]
fn a_reader_lets_go_during_a_write() {
    loom::model(|| {
        let pool = Pool::new(4 * BYTES);
        let mut writer = directory(&pool);
        let snapshot = writer.clone();
        let reader = thread::spawn(move || {
            let first = read(&snapshot);
            thread::yield_now();
            assert_eq!((first, read(&snapshot)), (0, 0));
        });
        writer.write(0).unwrap().fill(1);
        assert_eq!(read(&writer), 1);
        writer.write(0).unwrap().fill(2);
        reader.join().unwrap();
        assert_eq!((read(&writer), used(&pool)), (2, 1));
        drop(writer);
        assert_eq!(used(&pool), 0);
    });
}

/// V4: a chunk of two snapshots goes back once, whichever of them is last.
#[test]
fn the_last_of_two_readers_gives_the_chunk_back() {
    loom::model(|| {
        let pool = Pool::new(4 * BYTES);
        let mut writer = directory(&pool);
        let readers: Vec<_> = [writer.clone(), writer.clone()]
            .into_iter()
            .map(|snapshot| thread::spawn(move || assert_eq!(read(&snapshot), 0)))
            .collect();
        writer.write(0).unwrap().fill(1);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!((read(&writer), used(&pool)), (1, 1));
    });
}

/// V4: the bound holds in every order. A refused write leaves the old bytes, and succeeds later.
#[test]
fn a_write_beyond_the_bound_waits_for_a_reader() {
    loom::model(|| {
        let pool = Pool::new(BYTES);
        let mut writer = directory(&pool);
        let snapshot = writer.clone();
        let reader = thread::spawn(move || assert_eq!(read(&snapshot), 0));
        match writer.write(0) {
            Ok(bytes) => bytes.fill(1),
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }));
                assert_eq!(read(&writer), 0);
            }
        }
        assert!(pool.usage().used + pool.usage().spare <= BYTES);
        reader.join().unwrap();
        writer.write(0).unwrap().fill(2);
        assert_eq!((read(&writer), used(&pool)), (2, 1));
    });
}

/// V4: memory that two threads give back and one takes is counted once.
#[test]
fn memory_goes_from_thread_to_thread() {
    loom::model(|| {
        let pool = Pool::new(2 * BYTES);
        let chunks = [Chunk::any(&pool, BYTES).unwrap(), Chunk::any(&pool, BYTES).unwrap()];
        let givers: Vec<_> = chunks.map(|chunk| thread::spawn(move || drop(chunk))).into();
        let taken = Chunk::any(&pool, BYTES).ok();
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        let usage = pool.usage();
        assert_eq!(usage.used, if taken.is_some() { BYTES } else { 0 });
        assert_eq!(usage.used + usage.spare, 2 * BYTES);
    });
}

/// V4: memory of two sizes, one given back while the other is taken, is counted as it is.
#[test]
fn taking_and_giving_back_meet() {
    loom::model(|| {
        let pool = Pool::new(3 * BYTES);
        let chunk = Chunk::any(&pool, BYTES).unwrap();
        let giver = thread::spawn(move || drop(chunk));
        let taken = Chunk::any(&pool, 2 * BYTES).expect("both fit");
        giver.join().unwrap();
        assert_eq!(used(&pool), 2);
        drop(taken);
        assert_eq!((used(&pool), pool.usage().spare), (0, 3 * BYTES));
    });
}

/// V1: what a reader has of a buffer stays, while the writer appends and lets the buffer go.
#[test]
fn a_buffer_grows_behind_its_reader() {
    loom::model(|| {
        let pool = Pool::new(BYTES);
        let mut tail = Tail::new(Chunk::any(&pool, BYTES).unwrap());
        assert_eq!(tail.append(b"old"), 0);
        let filled = tail.filled();
        let reader = thread::spawn(move || {
            assert_eq!(filled.as_ref(), b"old");
            thread::yield_now();
            assert_eq!(filled.as_ref(), b"old");
        });
        assert_eq!(tail.append(b"new"), 3);
        assert_eq!(tail.filled().as_ref(), b"oldnew");
        drop(tail);
        reader.join().unwrap();
        assert_eq!(pool.usage().used, 0);
    });
}
