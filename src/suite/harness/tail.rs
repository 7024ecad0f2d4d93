//! The end of what a program says, read as it says it: a program that writes without end takes no memory, and one whose children keep its pipes open is not waited for.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most bytes that are kept.
const KEPT: usize = 64 << 10;

/// How long the end of a stream is waited for once its program has ended: until then only what it left in the pipe is read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last bytes of a stream that another thread reads.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Closed at the end of the stream.
    end: Receiver<()>,
}

impl Tail {
    /// Begins to read a stream.
    pub(crate) fn follow(mut stream: impl Read + Send + 'static) -> io::Result<Tail> {
        let (bytes, (sender, end)) = (Arc::new(Mutex::new(Vec::new())), channel());
        let shared = Arc::clone(&bytes);
        std::thread::Builder::new().name("output of a program".to_owned()).spawn(move || {
            let mut piece = [0; 1 << 13];
            loop {
                match stream.read(&mut piece) {
                    Ok(0) => break,
                    Ok(n) => keep(&mut shared.lock().unwrap_or_else(PoisonError::into_inner), &piece[..n]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    // What cannot be read is not shown.
                    Err(_) => break,
                }
            }
            drop(sender);
        })?;
        Ok(Tail { bytes, end })
    }

    /// What came last, once the program has ended.
    pub(crate) fn text(&self) -> String {
        // An error either way: nothing is ever sent.
        let _ = self.end.recv_timeout(PATIENCE);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(KEPT)..]).into_owned()
    }
}

/// Adds to what is kept; twice as much is held for a while, so that few bytes are moved.
fn keep(bytes: &mut Vec<u8>, piece: &[u8]) {
    bytes.extend_from_slice(piece);
    if bytes.len() > 2 * KEPT {
        bytes.drain(..bytes.len() - KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_much_is_kept() {
        let much = io::repeat(b'x').take(5 << 20).chain(&b"the end"[..]);
        let tail = Tail::follow(much).unwrap();
        let text = tail.text();
        assert!(text.len() == KEPT && text.ends_with("xthe end"), "{} bytes", text.len());
        assert!(tail.bytes.lock().unwrap().capacity() <= 8 * KEPT);
    }

    #[test]
    fn a_stream_that_does_not_end_is_not_waited_for() {
        /// Says a word, then nothing for longer than anybody waits.
        struct Open(bool);
        impl Read for Open {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    std::thread::sleep(Duration::from_secs(60));
                }
                to[0] = b'w';
                Ok(1)
            }
        }
        assert_eq!(Tail::follow(Open(false)).unwrap().text(), "w");
    }
}
