//! Errors: each message names the thing, the value and the limit.

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kept an operation from being done. A numerical mismatch is a report, not an error of this type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A format name that is not known.
    #[error("unknown dtype `{name}`; known: {known}")]
    UnknownDType {
        /// The name as given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Memory that the device could not give.
    #[error("{device} could not allocate {bytes} bytes: {reason}")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        bytes: usize,
        /// What the allocator said.
        reason: String,
    },
    /// A size that does not fit the address space.
    #[error("{what}: {elements} elements of {unit_bytes} bytes exceed the address space")]
    SizeOverflow {
        /// What was being sized.
        what: &'static str,
        /// Elements asked for.
        elements: usize,
        /// Bytes of each.
        unit_bytes: usize,
    },
    /// Two lengths that must agree and do not.
    #[error("{what}: expected {expected}, found {found}")]
    Length {
        /// What has that length.
        what: &'static str,
        /// The length that was needed.
        expected: usize,
        /// The length that was there.
        found: usize,
    },
    /// Two shapes that must agree and do not.
    #[error("{what}: shape {found:?} does not match {expected:?}")]
    Shape {
        /// What has that shape.
        what: String,
        /// The shape that was needed.
        expected: Vec<usize>,
        /// The shape that was there.
        found: Vec<usize>,
    },
    /// A format that does not fit the operation or the type.
    #[error("{what}: expected dtype {expected}, found {found}")]
    WrongDType {
        /// What has that format.
        what: String,
        /// The format (or formats) that would fit.
        expected: String,
        /// The format that was there.
        found: String,
    },
    /// A parameter outside its domain.
    #[error("{what} cannot be {value}: {limit}")]
    InvalidArgument {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        limit: String,
    },
    /// Buffers that live on different devices.
    #[error("{what} lives on {found}, but this operation runs on {expected}")]
    WrongDevice {
        /// The buffer.
        what: &'static str,
        /// Where the operation runs.
        expected: String,
        /// Where the buffer is.
        found: String,
    },
    /// Something that this device or build cannot do.
    #[error("{what} is not supported by {by}")]
    Unsupported {
        /// The operation.
        what: String,
        /// The device, architecture or build.
        by: String,
    },
    /// No device of the kind asked for.
    #[error("no {wanted} device: {reason}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// Why there is none.
        reason: String,
    },
    /// A call of the HIP runtime failed.
    #[error("{call} failed: {name} ({code})")]
    Hip {
        /// The function.
        call: &'static str,
        /// The name of the error code.
        name: String,
        /// The error code.
        code: i32,
    },
    /// A kernel could not be built for this GPU.
    #[error("kernel {kernel} could not be compiled for {arch}: {log}")]
    Compile {
        /// The kernel or source file.
        kernel: String,
        /// The GPU architecture.
        arch: String,
        /// The compiler's words.
        log: String,
    },
    /// An error that an earlier asynchronous operation or a `Drop` found.
    #[error("an earlier operation failed: {0}")]
    Deferred(Box<Error>),
    /// Something about a file.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}
