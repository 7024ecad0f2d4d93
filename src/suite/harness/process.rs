//! Processes that end together: a worker leads a group that has whatever it starts, and the group ends with it or with who asked for it.
//!
//! On Unix a worker is the leader of a process group of its own. Who started it ends the whole group ([`end`]), so that no program of a case that was late is left
//! behind. The terminal's signals no longer reach such a group; instead a worker ends its group as soon as the pipe that its orders come from is closed at the other
//! end ([`end_with_input`]): that happens however the other process ends.
//!
//! Elsewhere a worker is ended alone. A program that leaves its process group (`setsid`) is out of reach everywhere.

#[cfg(unix)]
use rustix::process::{Pid, Signal};
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Set for a worker whose orders come through a pipe that is open as long as they may come.
const LED: &str = "HIPVERIFY_SUITE_WORKER";

/// Makes the process that the command starts the leader of its own group.
pub(crate) fn lead(command: &mut Command) {
    command.env(LED, "1");
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// For programs that a worker starts: they lead nothing.
pub(crate) fn follow(command: &mut Command) {
    command.env_remove(LED);
}

/// Whether a child has ended. Unlike `try_wait` this leaves it there, and so its group's number, which is its own, cannot be another's.
#[cfg(unix)]
pub(crate) fn has_ended(child: &mut Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

#[cfg(not(unix))]
pub(crate) fn has_ended(child: &mut Child) -> bool {
    // An error where the system has no such child any more: it does not keep those that have ended where SIGCHLD is ignored.
    !matches!(child.try_wait(), Ok(None))
}

/// How long a child that was killed is waited for. One that the system does not let go, as in a call of a driver that hangs, is left: nothing ends it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends a child that [`lead`]s, with all of its group, and tells how it ended: by itself, where it had done so. An error where it does not end within [`PATIENCE`].
pub(crate) fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // The child has not been waited for, so no other process has its number, and none but its own descendants that group.
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
    // One that has ended cannot be killed, and need not be.
    let _ = child.kill();
    wait(child, PATIENCE)
}

/// Waits for a child's end, for at most so long.
fn wait(child: &mut Child, patience: Duration) -> io::Result<ExitStatus> {
    let started = Instant::now();
    while !has_ended(child) {
        if started.elapsed() >= patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait()
}

/// Ends this process with its group once its standard input is closed at the other end, where another process [`lead`]s it so. What is left to be read does not count:
/// nobody waits for it any more.
pub(crate) fn end_with_input() {
    #[cfg(unix)]
    if std::env::var_os(LED).is_some() {
        // Without the thread it ends as the input does, between two cases.
        let _ = std::thread::Builder::new().name("end with input".to_owned()).spawn(wait_for_the_end);
    }
}

#[cfg(unix)]
fn wait_for_the_end() {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{getpgrp, getpid, kill_current_process_group};
    let input = io::stdin();
    let mut closed = [PollFd::new(&input, PollFlags::empty())];
    let ended = rustix::io::retry_on_intr(|| poll(&mut closed, None)).is_ok();
    // Only a group of its own: one that was not led holds other programs too.
    if ended && getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_child_is_waited_for_without_an_end() {
        let mut command = Command::new("sleep");
        lead(&mut command);
        let mut child = command.arg("60").spawn().unwrap();
        let error = wait(&mut child, Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "a child that goes on is left");
        assert!(!end(&mut child).unwrap().success(), "one that was killed ends");
    }
}
