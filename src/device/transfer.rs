//! Copies that overlap other work. For copies that wait, see [`DeviceMem::copy_from_slice`].
//!
//! There are two kinds, both sound even if something is leaked or panics: a [`Transfer`] owns both buffers and returns them when the copy is
//! done; a [`Scope`] borrows them and ends with a wait.

use super::hip::{HipStream, Source, Target};
use super::mem::same_length;
use super::{DeviceMem, Event, PinnedMem, Stream};
use crate::dtype::Element;
use crate::error::Result;
use std::marker::PhantomData;
use std::sync::Arc;

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
        let copy = match direction {
            Direction::ToDevice => to_device(device, pinned.as_slice(), stream)?,
            Direction::ToHost => to_host(device, pinned.as_mut_slice(), stream)?,
        };
        if let Some((stream, to, from)) = copy {
            // SAFETY: the transfer owns both buffers and gives them back after the copy; its drop waits, and a leaked one leaks them.
            unsafe { stream.copy(&to, &from)? };
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
        self.enqueue(to_device(target, source, self.stream)?)
    }

    /// Enqueues a copy to host memory.
    ///
    /// # Errors
    /// As [`upload`](Scope::upload).
    pub fn download<T: Element>(&'scope self, source: &'scope DeviceMem<T>, target: &'scope mut [T]) -> Result<()> {
        self.enqueue(to_host(source, target, self.stream)?)
    }

    fn enqueue(&'scope self, copy: Option<Prepared<'scope>>) -> Result<()> {
        let Some((stream, to, from)) = copy else { return Ok(()) };
        // SAFETY: both are borrowed for 'scope, and [`Stream::scope`] waits for the stream before that ends, also on unwind.
        unsafe { stream.copy(&to, &from) }
    }
}

/// A copy that a GPU's stream is to make, on a device that was entered.
type Prepared<'a> = (&'a Arc<HipStream>, Target<'a>, Source<'a>);

/// Makes a copy on the host device, under the same conditions as on a GPU: without units there is no copy.
fn on_host(stream: &Stream, units: usize, copy: impl FnOnce() -> Result<()>) -> Result<()> {
    let _open = if units > 0 { Some(stream.not_recording("a copy")?) } else { None };
    copy()
}

/// A copy to the device; the host device makes it at once.
fn to_device<'a, T: Element>(target: &'a mut DeviceMem<T>, source: &'a [T], stream: &'a Stream) -> Result<Option<Prepared<'a>>> {
    stream.device().expect_same(target.device(), "the target")?;
    same_length("units copied to the device", target.len(), source.len())?;
    let Some(hip) = stream.hip() else {
        return on_host(stream, source.len(), || target.copy_from_slice(source)).map(|()| None);
    };
    hip.device().enter()?;
    Ok(Some((hip, Target::memory(target.bytes_mut()), Source::host(bytemuck::cast_slice(source)))))
}

/// A copy to the host; the host device makes it at once.
fn to_host<'a, T: Element>(source: &'a DeviceMem<T>, target: &'a mut [T], stream: &'a Stream) -> Result<Option<Prepared<'a>>> {
    stream.device().expect_same(source.device(), "the source")?;
    same_length("units copied from the device", source.len(), target.len())?;
    let Some(hip) = stream.hip() else {
        return on_host(stream, target.len(), || source.copy_to_slice(target)).map(|()| None);
    };
    hip.device().enter()?;
    Ok(Some((hip, Target::host(bytemuck::cast_slice_mut(target)), Source::memory(source.bytes()))))
}
