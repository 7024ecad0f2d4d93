//! A process that computes cases for another one: names come in, results go out, a line each.
//!
//! Each message on the worker's standard output begins with the byte 0x1e, JSON's record separator: what kernels print stays apart from it. The first message is
//! `"ready"`. A worker ends when its input does, so that none outlives who asked.

use super::cases::Suite;
use super::record::CaseResult;
use crate::device::Device;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// JSON's record separator (RFC 7464).
const SEPARATOR: u8 = 0x1e;

impl Suite {
    /// Computes the cases whose names come from `input` and writes their results to `output`, until the input ends.
    ///
    /// # Errors
    /// When input or output fails, or a name is none of this suite.
    pub fn serve(&self, device: &Device, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        send(&mut output, &"ready")?;
        for name in input.lines() {
            let name = name?;
            let case = self.case(&name).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no case `{name}`")))?;
            send(&mut output, &self.execute(case, device))?;
        }
        Ok(())
    }
}

fn send(output: &mut impl Write, message: &impl serde::Serialize) -> io::Result<()> {
    let mut bytes = vec![SEPARATOR];
    serde_json::to_writer(&mut bytes, message)?;
    bytes.push(b'\n');
    output.write_all(&bytes)?;
    output.flush()
}

/// How a worker answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// With a result.
    Result(Box<CaseResult>),
    /// It died.
    Died(String),
    /// Not in time; it was killed.
    Late,
}

/// A worker at the other end of two pipes. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Vec<u8>>,
}

impl Worker {
    /// Starts a worker and waits until it is ready, for at most `patience`.
    pub(crate) fn start(mut command: Command, patience: Duration) -> io::Result<Worker> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while matches!(output.read_until(b'\n', &mut line), Ok(n) if n > 0) {
                match line.iter().rposition(|&byte| byte == SEPARATOR) {
                    Some(at) if sender.send(line.split_off(at + 1)).is_err() => return,
                    _ => {}
                }
                // What a kernel printed; that it cannot be shown is no reason to stop.
                let _ = io::stderr().write_all(&line);
                line.clear();
            }
        });
        let mut worker = Worker { child, input, messages };
        match worker.messages.recv_timeout(patience) {
            Ok(_) => Ok(worker),
            Err(_) => Err(io::Error::other(format!("a worker did not start: {}", worker.end()))),
        }
    }

    /// Has a case computed.
    pub(crate) fn ask(&mut self, case: &str, timeout: Duration) -> Answer {
        if writeln!(self.input, "{case}").and_then(|()| self.input.flush()).is_err() {
            return Answer::Died(self.end());
        }
        match self.messages.recv_timeout(timeout) {
            Ok(line) => match serde_json::from_slice(&line) {
                Ok(result) => Answer::Result(Box::new(result)),
                Err(e) => Answer::Died(format!("the process answered what is no result ({e})")),
            },
            Err(RecvTimeoutError::Timeout) => Answer::Late,
            Err(RecvTimeoutError::Disconnected) => Answer::Died(self.end()),
        }
    }

    /// How it ended: it has closed its output, or is made to end.
    fn end(&mut self) -> String {
        // A moment for a process that is about to end by itself, to learn how.
        for _ in 0..50 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return words(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        "the process had to be killed".to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(status: ExitStatus) -> String {
    format!("the process ended with {status}")
}
