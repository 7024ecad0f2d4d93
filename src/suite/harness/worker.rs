//! A process that computes cases for another one: names come in, results go out, a line each. Behind each result comes a line that says what of the case's files could
//! not be kept, `null` where all were or none were to be: a case's time ends with its result.
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
            let computed = self.compute(case, device);
            send(&mut output, &computed.result)?;
            send(&mut output, &self.keep(case, &computed))?;
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

/// How long a worker may take to keep the files of a case: gigabytes, on a disk that others use too.
const KEEPING: Duration = Duration::from_secs(600);

/// Why a worker gave no message.
#[derive(Debug)]
pub(crate) enum Silence {
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

    /// Has a case computed. Its result, and whether the worker can go on.
    pub(crate) fn ask(&mut self, case: &str, timeout: Duration) -> Result<(CaseResult, bool), Silence> {
        if writeln!(self.input, "{case}").and_then(|()| self.input.flush()).is_err() {
            return Err(Silence::Died(self.end()));
        }
        let mut result: CaseResult = self.message(timeout)?;
        let how = match self.message::<Option<String>>(KEEPING) {
            Ok(note) => {
                result.reasons.extend(note);
                return Ok((result, true));
            }
            Err(Silence::Died(how)) => how,
            Err(Silence::Late) => format!("that took more than {} s", KEEPING.as_secs()),
        };
        if !result.ok {
            result.reasons.push(format!("its files may not have been saved: {how}"));
        }
        Ok((result, false))
    }

    /// The next message, which may take so long.
    fn message<T: serde::de::DeserializeOwned>(&mut self, patience: Duration) -> Result<T, Silence> {
        match self.messages.recv_timeout(patience) {
            Ok(line) => serde_json::from_slice(&line).map_err(|e| Silence::Died(format!("the process answered what is no result ({e})"))),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Late),
            Err(RecvTimeoutError::Disconnected) => Err(Silence::Died(self.end())),
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

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::CaseOutcome;
    use super::super::{Kernels, SuiteFile};
    use super::*;

    /// The time of a case ends with its result; what a worker does afterwards is told, and a worker that ended is not asked again.
    #[test]
    fn a_result_is_there_before_its_files() {
        let suite = Suite::new(&SuiteFile::parse("s.toml", "[[gemm]]\nsize = '1x1x1'").unwrap(), "s.toml", Kernels::default()).unwrap();
        let result = serde_json::to_string(&suite.ended(&suite.cases[0], "host", CaseOutcome::Fail, Vec::new())).unwrap();
        for (then, reasons, goes_on, reason) in [
            ("sleep 2; say null", vec![], true, "kept, and longer than the case may take"),
            ("say '\"no place\"'", vec!["no place"], true, "not kept"),
            ("exit 3", vec!["its files may not have been saved: the process ended with exit status: 3"], false, "ended"),
        ] {
            let mut command = Command::new("sh");
            command.args([
                "-c",
                &format!("say() {{ printf '\\036%s\\n' \"$1\"; }}; say '\"f\"'; read case; say \"$0\"; {then}; read end"),
                &result,
            ]);
            let mut worker = Worker::start(command, Duration::from_secs(60), "f").unwrap();
            let (found, able) = worker.ask("gemm", Duration::from_secs(1)).unwrap();
            assert_eq!(
                (found.outcome, found.reasons, able),
                (CaseOutcome::Fail, reasons.into_iter().map(str::to_owned).collect(), goes_on),
                "{reason}"
            );
        }
    }
}
