//! Counts of operations, the lock of recordings, and the list of streams.

use super::progress::Progress;
use super::recording::RecordingLock;
use super::registry::{Listed, Queue, Registry};
use super::{RuntimeQueue, check};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// A stream as the HIP backend has it.
struct Stream {
    registry: Arc<Registry<Stream>>,
    queue: Arc<RuntimeQueue>,
    progress: Progress,
    recording: RecordingLock,
    destroyed: Arc<AtomicBool>,
}

impl Stream {
    fn new(registry: &Arc<Registry<Stream>>) -> (Listed<Stream>, Arc<RuntimeQueue>) {
        let queue = Arc::new(RuntimeQueue::default());
        let stream = Stream {
            registry: Arc::clone(registry),
            queue: Arc::clone(&queue),
            progress: Progress::default(),
            recording: RecordingLock::default(),
            destroyed: Arc::new(AtomicBool::new(false)),
        };
        (Listed::of(stream), queue)
    }

    fn enqueue(&self) -> u64 {
        self.progress.during(|| self.queue.submit())
    }

    fn finish(&self) {
        assert!(!self.destroyed.load(Ordering::SeqCst), "a stream that was destroyed is waited for");
        let Ok(()) = self.progress.waiting(|| self.queue.synchronize());
    }
}

impl Queue for Stream {
    fn registry(&self) -> &Registry<Stream> {
        &self.registry
    }

    fn drain(&self) {
        if self.progress.is_busy() {
            self.finish();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.destroyed.store(true, Ordering::SeqCst);
    }
}

/// Waits for every stream that has work, as blocking operations do.
fn synchronize_all(registry: &Registry<Stream>) {
    for stream in registry.queues(|stream| stream.progress.is_busy()) {
        if let Some(_operation) = stream.recording.operation() {
            stream.finish();
        }
    }
}

/// A stream that does not look busy has done everything that was enqueued before somebody looked.
#[test]
fn work_looks_busy_until_it_is_done() {
    check(|| {
        let state = Arc::new((Progress::default(), RuntimeQueue::default()));
        let enqueue = |state: Arc<(Progress, RuntimeQueue)>| {
            thread::spawn(move || {
                let (progress, queue) = &*state;
                let operation = progress.during(|| queue.submit());
                assert!(progress.is_busy() || queue.has_done(operation));
            })
        };
        let threads = [enqueue(Arc::clone(&state)), enqueue(Arc::clone(&state))];
        let (progress, queue) = &*state;
        let Ok(()) = progress.waiting(|| queue.synchronize());
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(progress.is_busy() || queue.has_done_all());
        let Ok(()) = progress.waiting(|| queue.synchronize());
        assert!(!progress.is_busy());
    });
}

/// The end of an operation stands for what came before it, whoever enqueued that, and for nothing else.
#[test]
fn the_last_operation_speaks_for_those_before_it() {
    check(|| {
        let state = Arc::new((Progress::default(), RuntimeQueue::default()));
        let other = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                let (progress, queue) = &*state;
                let operation = progress.during(|| queue.submit());
                assert!(progress.is_busy() || queue.has_done(operation));
            })
        };
        let (progress, queue) = &*state;
        let (operation, last) = progress.last(|| progress.during(|| queue.submit()));
        if let Some(last) = last {
            queue.complete(operation);
            progress.reach_last(&last);
        }
        assert!(progress.is_busy() || queue.has_done(operation));
        other.join().unwrap();
        assert!(progress.is_busy() || queue.has_done_all());
    });
}

/// What says whether the end of an operation can be told, in one thread.
#[test]
fn the_last_operation_is_told_unless_others_enqueue() {
    check(|| {
        let progress = Progress::default();
        progress.during(|| ());
        let last = progress.last(|| progress.during(|| ())).1.expect("nobody else enqueued");
        progress.reach_last(&last);
        assert!(!progress.is_busy());

        // Another operation after it, while its end is waited for.
        let last = progress.last(|| progress.during(|| ())).1.expect("nobody else enqueued");
        progress.during(|| ());
        progress.reach_last(&last);
        assert!(progress.is_busy());

        // One that is being enqueued all the while: it was counted once.
        progress.waiting(|| Ok::<(), ()>(())).unwrap();
        let last = progress.during(|| progress.last(|| progress.during(|| ())).1.expect("the other is counted once more"));
        progress.reach_last(&last);
        assert!(progress.is_busy());

        // One that comes between, on either side of it or all within; and a call that enqueues nothing.
        assert!(progress.last(|| progress.during(|| progress.during(|| ()))).1.is_none());
        assert!(progress.last(|| ()).1.is_none());
    });
}

/// A wait that fails has seen the end of nothing.
#[test]
fn a_wait_that_fails_leaves_the_stream_busy() {
    check(|| {
        let progress = Progress::default();
        progress.allocating(|| ());
        assert_eq!(progress.waiting(|| Err(900)), Err(900));
        assert!(progress.is_busy() && progress.has_fresh_memory());
        progress.waiting(|| Ok::<(), ()>(())).unwrap();
        assert!(!progress.is_busy() && !progress.has_fresh_memory());
    });
}

/// Memory that a stream has just allocated may be used elsewhere once that stream has come so far.
#[test]
fn fresh_memory_is_seen_by_whoever_has_its_address() {
    check(|| {
        let state = Arc::new((Progress::default(), RuntimeQueue::default()));
        let allocating = {
            let state = Arc::clone(&state);
            thread::spawn(move || state.0.allocating(|| state.1.submit()))
        };
        let (progress, queue) = &*state;
        let Ok(()) = progress.waiting(|| queue.synchronize());
        let allocation = allocating.join().unwrap();
        assert!(progress.has_fresh_memory() || queue.has_done(allocation));
    });
}

/// Blocking work comes after what was enqueued before it, also on a stream whose last handle another thread is dropping; and no stream is
/// waited for that has been destroyed.
#[test]
fn streams_that_are_dropped_are_waited_for() {
    check(|| {
        let registry = Arc::new(Registry::new());
        let (stream, queue) = Stream::new(&registry);
        let operation = stream.enqueue();
        let dropping = thread::spawn(move || drop(stream));
        synchronize_all(&registry);
        assert!(queue.has_done(operation), "work of a stream that is being dropped");
        dropping.join().unwrap();
        assert!(registry.queues(|_| true).is_empty());
    });
}

/// Threads that make, use and drop streams while others wait for all of them.
#[test]
fn streams_come_and_go() {
    check(|| {
        let registry = Arc::new(Registry::new());
        let threads = [(); 2].map(|()| {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let (stream, queue) = Stream::new(&registry);
                let operation = stream.enqueue();
                synchronize_all(&registry);
                assert!(queue.has_done(operation));
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(registry.queues(|_| true).is_empty());
    });
}

/// A recording holds what its own thread enqueues and nothing else, and nobody waits for a stream meanwhile.
#[test]
fn operations_and_recordings_exclude_each_other() {
    check(|| {
        let state = Arc::new((RecordingLock::default(), AtomicBool::new(false)));
        let recording = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                let (lock, on) = &*state;
                let began = lock.begin(|| -> Result<(), ()> {
                    on.store(true, Ordering::SeqCst);
                    Ok(())
                });
                assert_eq!(began, Some(Ok(())));
                assert!(lock.operation().is_none(), "refused and not waited for: this thread would wait for itself");
                assert!(lock.begin(|| Ok::<(), ()>(())).is_none(), "nor does a recording begin in a recording");
                lock.end(|| on.store(false, Ordering::SeqCst));
            })
        };
        let (lock, on) = &*state;
        for _ in 0..2 {
            if let Some(_operation) = lock.operation() {
                assert!(!on.load(Ordering::SeqCst), "an operation during a recording");
            }
        }
        recording.join().unwrap();
        assert!(lock.operation().is_some());
    });
}

/// A recording that cannot be begun leaves the stream to others.
#[test]
fn a_recording_that_fails_is_none() {
    check(|| {
        let lock = Arc::new(RecordingLock::default());
        let other = Arc::clone(&lock);
        let failing = thread::spawn(move || assert_eq!(other.begin(|| Err("no memory")), Some(Err("no memory"))));
        assert!(lock.operation().is_some());
        failing.join().unwrap();
        assert!(lock.operation().is_some());
    });
}

/// Operations on two streams, each of which waits for the other stream, while recordings of both are about to begin.
#[test]
fn operations_that_wait_for_other_streams_do_not_wait_in_a_circle() {
    check(|| {
        let locks = Arc::new([RecordingLock::default(), RecordingLock::default()]);
        let operations = [[0, 1], [1, 0]].map(|[own, other]| {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                let own = locks[own].operation();
                let other = locks[other].operation();
                drop((own, other));
            })
        });
        let recording = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                assert_eq!(locks[0].begin(|| Ok::<(), ()>(())), Some(Ok(())));
                locks[0].end(|| ());
            })
        };
        assert_eq!(locks[1].begin(|| Ok::<(), ()>(())), Some(Ok(())));
        locks[1].end(|| ());
        operations.into_iter().for_each(|t| t.join().unwrap());
        recording.join().unwrap();
    });
}
