//! Copies that overlap other work. For copies that wait, see [`DeviceMem::copy_from_slice`].
//!
//! There are two kinds, both sound even if something is leaked or panics: a [`Transfer`] owns both buffers and returns them when the copy is
//! done; a [`Scope`] borrows them and ends with a wait.

use super::hip::{Source, Target};
use super::mem::{Alloc, same_length};
use super::{DeviceMem, Event, PinnedMem, Stream};
use crate::dtype::Element;
use crate::error::Result;
use std::marker::PhantomData;

/// A copy in flight, with both of its buffers.
#[derive(Debug)]
#[must_use = "the buffers come back from `wait`"]
pub struct Transfer<T: Element> {
    // `None` once `wait` has given the buffers back.
    buffers: Option<(PinnedMem<T>, DeviceMem<T>)>,
    stream: Stream,
    done: Event,
}

/// Which of a transfer's buffers is copied to which.
#[derive(Clone, Copy)]
enum Direction {
    ToDevice,
    ToHost,
}

impl<T: Element> PinnedMem<T> {
    /// Enqueues a copy of this buffer into `target` and returns at once.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length), [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Unsupported`](crate::Error::Unsupported) on a stream that is being captured, or a failed call; both buffers are dropped then.
    pub fn upload(self, target: DeviceMem<T>, stream: &Stream) -> Result<Transfer<T>> {
        self.start(target, stream, Direction::ToDevice)
    }

    /// Enqueues a copy of `source` into this buffer and returns at once.
    ///
    /// # Errors
    /// As [`upload`](PinnedMem::upload).
    pub fn download(self, source: DeviceMem<T>, stream: &Stream) -> Result<Transfer<T>> {
        self.start(source, stream, Direction::ToHost)
    }

    fn start(self, mem: DeviceMem<T>, stream: &Stream, direction: Direction) -> Result<Transfer<T>> {
        let mut transfer = Transfer { buffers: None, stream: stream.clone(), done: Event::new(stream.device())? };
        // Inside the transfer before the copy starts: should `record` fail, dropping the transfer waits for the copy.
        let (pinned, device) = transfer.buffers.insert((self, mem));
        // SAFETY: the transfer owns both buffers and gives them back after the copy; its drop waits, and a leaked one leaks them.
        unsafe {
            match direction {
                Direction::ToDevice => copy_in(device, pinned.as_slice(), stream)?,
                Direction::ToHost => copy_out(device, pinned.as_mut_slice(), stream)?,
            }
        }
        transfer.done.record(stream)?;
        Ok(transfer)
    }
}

impl<T: Element> Transfer<T> {
    /// Whether the copy is done.
    ///
    /// # Errors
    /// An error of the work before it on its stream.
    pub fn is_done(&self) -> Result<bool> {
        self.done.is_done()
    }

    /// Waits for the copy and gives both buffers back.
    ///
    /// # Errors
    /// An error of the copy, or of the work before it on its stream; the buffers are dropped then.
    pub fn wait(mut self) -> Result<(PinnedMem<T>, DeviceMem<T>)> {
        self.done.synchronize()?;
        match self.buffers.take() {
            Some(buffers) => Ok(buffers),
            None => unreachable!("only `wait` takes the buffers, and it takes the transfer as well"),
        }
    }
}

impl<T: Element> Drop for Transfer<T> {
    fn drop(&mut self) {
        if self.buffers.is_some()
            && let Some(stream) = self.stream.hip()
        {
            // The pinned buffer is about to be freed.
            stream.device().defer(|| stream.fence());
        }
    }
}

/// Copies that borrow their buffers until the scope is over; see [`Stream::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    stream: &'scope Stream,
    // Invariant in both, as std's thread scopes are: neither may shrink or grow.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Stream {
    /// Runs `f`, which may enqueue copies on this stream that borrow what lives outside of it, and waits for them before it
    /// returns, also when `f` panics.
    ///
    /// ```
    /// use hipverify::{Device, DeviceMem, Stream};
    /// let device = Device::host();
    /// let (source, mut x) = (vec![1.0f32; 4], DeviceMem::<f32>::new(&device, 4)?);
    /// Stream::new(&device)?.scope(|s| s.upload(&source, &mut x))??;
    /// assert_eq!(x.to_vec()?, source);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error of the work on this stream.
    pub fn scope<'env, R>(&self, f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> Result<R> {
        /// Waits on unwind.
        struct Fence<'a>(&'a Stream);
        impl Drop for Fence<'_> {
            fn drop(&mut self) {
                if let Some(stream) = self.0.hip() {
                    stream.device().defer(|| stream.fence());
                }
            }
        }
        let fence = Fence(self);
        let result = f(&Scope { stream: self, scope: PhantomData, env: PhantomData });
        std::mem::forget(fence);
        // Not `synchronize`: an older error must not keep this from waiting.
        if let Some(stream) = self.hip() {
            stream.fence()?;
        }
        Ok(result)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// The stream of this scope.
    pub fn stream(&self) -> &'scope Stream {
        self.stream
    }

    /// Enqueues a copy from host memory. Pageable memory works; pinned memory overlaps.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length), [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Unsupported`](crate::Error::Unsupported) on a stream that is being captured, or a failed call.
    pub fn upload<T: Element>(&'scope self, source: &'scope [T], target: &'scope mut DeviceMem<T>) -> Result<()> {
        // SAFETY: both are borrowed for 'scope, and [`Stream::scope`] waits for the stream before that ends, also on unwind.
        unsafe { copy_in(target, source, self.stream) }
    }

    /// Enqueues a copy to host memory.
    ///
    /// # Errors
    /// As [`upload`](Scope::upload).
    pub fn download<T: Element>(&'scope self, source: &'scope DeviceMem<T>, target: &'scope mut [T]) -> Result<()> {
        // SAFETY: both are borrowed for 'scope, and [`Stream::scope`] waits for the stream before that ends, also on unwind.
        unsafe { copy_out(source, target, self.stream) }
    }
}

/// Makes a copy on the host device, under the same conditions as on a GPU: without units there is no copy.
fn on_host(stream: &Stream, units: usize, copy: impl FnOnce() -> Result<()>) -> Result<()> {
    let _open = if units > 0 { Some(stream.not_recording("a copy")?) } else { None };
    copy()
}

/// Enqueues a copy to the device.
///
/// # Safety
/// Until the stream has been waited for, both ends stay alive, nothing writes `source`, and only work on this stream uses `target`.
unsafe fn copy_in<T: Element>(target: &mut DeviceMem<T>, source: &[T], stream: &Stream) -> Result<()> {
    stream.device().expect_same(target.device(), "the target")?;
    same_length("units copied to the device", target.len(), source.len())?;
    match (target.bytes_mut().alloc_mut(), stream.hip()) {
        (Alloc::Hip(to), Some(stream)) => {
            stream.device().enter()?;
            // SAFETY: the caller's promise.
            unsafe { stream.copy(&Target::block(to), &Source::host(bytemuck::cast_slice(source))) }
        }
        _ => on_host(stream, source.len(), || target.copy_from_slice(source)),
    }
}

/// Enqueues a copy to the host.
///
/// # Safety
/// Until the stream has been waited for, both ends stay alive, nothing writes `source`, and nothing uses `target`.
unsafe fn copy_out<T: Element>(source: &DeviceMem<T>, target: &mut [T], stream: &Stream) -> Result<()> {
    stream.device().expect_same(source.device(), "the source")?;
    same_length("units copied from the device", source.len(), target.len())?;
    match (source.bytes().alloc(), stream.hip()) {
        (Alloc::Hip(from), Some(stream)) => {
            stream.device().enter()?;
            // SAFETY: the caller's promise.
            unsafe { stream.copy(&Target::host(bytemuck::cast_slice_mut(target)), &Source::block(from)) }
        }
        _ => on_host(stream, target.len(), || source.copy_to_slice(target)),
    }
}
