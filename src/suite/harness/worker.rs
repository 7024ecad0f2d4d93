//! A process that computes cases for another one: names come in, results go out, a line each.
//!
//! Each message on the worker's standard output begins with the byte 0x1e, JSON's record separator: what kernels print stays apart from it. The first message is
//! the [fingerprint](Suite::fingerprint) of the suite that it has read: a file that was changed meanwhile has other cases. A worker ends when its input does, and what it started ends with it ([`process`]), so that nothing outlives who asked.

use super::cases::{Case, Suite};
use super::process;
use super::record::CaseResult;
use crate::device::Device;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// JSON's record separator (RFC 7464).
const SEPARATOR: u8 = 0x1e;

impl Suite {
    /// Computes the cases whose names come from `input` and writes their results to `output`, until the input ends.
    ///
    /// # Errors
    /// When input or output fails, or a name is none of this suite.
    pub fn serve(&self, device: &Device, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        process::end_with_input();
        let cases: HashMap<&str, &Case> = self.cases.iter().map(|case| (case.name.as_str(), case)).collect();
        send(&mut output, &self.fingerprint)?;
        for name in input.lines() {
            let name = name?;
            let case = cases.get(name.as_str()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no case `{name}`")))?;
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

/// Sends the messages of a worker's output on, and shows what stands between them.
fn forward(mut output: impl BufRead, messages: &Sender<Vec<u8>>) {
    let mut line = Vec::new();
    while matches!(output.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        if let Some(at) = line.iter().rposition(|&byte| byte == SEPARATOR) {
            let message = line.split_off(at + 1);
            line.truncate(at);
            if messages.send(message).is_err() {
                return;
            }
        }
        // What a kernel printed; that it cannot be shown is no reason to stop.
        let _ = io::stderr().write_all(&line);
        line.clear();
    }
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

/// A worker at the other end of two pipes. It is ended when this is dropped, with all that it started.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    /// It has been waited for: its number may be another process's.
    gone: bool,
    input: ChildStdin,
    messages: Receiver<Vec<u8>>,
}

impl Worker {
    /// Starts a worker and waits until it is ready, for at most `patience`. Its suite has to be the one with this fingerprint; where it is not, the error is one of invalid data.
    pub(crate) fn start(mut command: Command, patience: Duration, fingerprint: &str) -> io::Result<Worker> {
        process::lead(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        let (sender, messages) = channel();
        let mut worker = Worker { child, gone: false, input, messages };
        std::thread::Builder::new().spawn(move || forward(BufReader::new(output), &sender))?;
        match worker.messages.recv_timeout(patience) {
            Ok(message) if serde_json::from_slice::<String>(&message).is_ok_and(|found| found == fingerprint) => Ok(worker),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "was changed while its cases ran: it is another suite now")),
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
            if self.gone || process::has_ended(&mut self.child) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let by_itself = self.gone || process::has_ended(&mut self.child);
        match self.end_once() {
            Some(status) if by_itself => words(status),
            _ => "the process had to be killed".to_owned(),
        }
    }

    /// Ends it with all that it started, once.
    fn end_once(&mut self) -> Option<ExitStatus> {
        if std::mem::replace(&mut self.gone, true) {
            return None;
        }
        process::end(&mut self.child).ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end_once();
    }
}

fn words(status: ExitStatus) -> String {
    format!("the process ended with {status}")
}
