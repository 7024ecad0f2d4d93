//! Signals that end the program: what is half written is removed first, and a mapped file that was cut is an error.
//!
//! A read behind the end of a mapped file is SIGBUS in the thread that reads. That thread cannot go on, and little is allowed inside a signal handler:
//! it wakes a thread that waits, and sleeps. The thread that waits tells which file it was and ends the program.

#[cfg(unix)]
pub(super) fn handle() {
    remove_unfinished_files();
    // Where no handler can be had, the signal ends the program as it is.
    let _ = bus_errors::handle();
}

#[cfg(not(unix))]
pub(super) fn handle() {}

/// Ends the program as SIGINT, SIGTERM and SIGHUP do, and removes what is half written first. Where no handler can be had, they end it as they are.
#[cfg(unix)]
fn remove_unfinished_files() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // What `nohup` starts is to outlive its terminal.
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(ending) {
        let wait = move || {
            for signal in signals.forever() {
                crate::files::remove_unfinished();
                super::suite::scratch::remove();
                // It does not come back.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        let _ = std::thread::Builder::new().spawn(wait);
    }
}

/// Whether a signal is ignored, as `nohup` sets it before it starts a program.
#[cfg(unix)]
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: zeros are a valid `sigaction`; without a new action the call only writes the present one to that address.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(unix)]
mod bus_errors {
    use std::io::{PipeWriter, Read, Result, Write};
    use std::sync::OnceLock;

    /// The end of the pipe that the handler writes to.
    static WAKE: OnceLock<PipeWriter> = OnceLock::new();

    /// Makes SIGBUS an error. The handlers of signal-hook call the one before them, here that of Rust's runtime, which has the system end the process:
    /// this one replaces it.
    pub(super) fn handle() -> Result<()> {
        let (mut woken, wake) = std::io::pipe()?;
        let _ = WAKE.set(wake);
        std::thread::Builder::new().spawn(move || {
            if woken.read_exact(&mut [0]).is_ok() {
                end();
            }
        })?;
        let handler = on_signal as extern "C" fn(libc::c_int);
        // SAFETY: zeros are a valid `sigaction` (no flags, no signals masked); the handler calls only what signal handlers may, and the pointer to the old
        // action may be null.
        let set = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut())
        };
        if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    extern "C" fn on_signal(_: libc::c_int) {
        // Both functions only make a system call, which a signal handler may.
        if let Some(wake) = WAKE.get() {
            let _ = rustix::io::write(wake, &[0]);
        }
        loop {
            rustix::event::pause();
        }
    }

    /// Tells what happened and ends the program: threads that wait in the handler can be neither woken nor joined.
    fn end() -> ! {
        crate::files::remove_unfinished();
        let file = crate::files::changed().map_or_else(|| "a mapped file".to_owned(), |path| path.display().to_string());
        let line =
            format!("error: {}: was cut while it was read, or cannot be read any more (SIGBUS)\n", super::super::screen::plain(&file));
        let _ = std::io::stderr().write_all(line.as_bytes());
        // Without the handlers of `exit`, which may wait for a thread that waits here.
        signal_hook::low_level::exit(2)
    }
}
