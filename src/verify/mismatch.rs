//! Verdicts as errors, for a `main` or a test that returns `Result`.

use super::{Report, Verdict};

/// An error that is a report, and prints as one: `Debug` as well, since a `main` or a `#[test]` that ends with an error prints it by that.
macro_rules! report_as_error {
    ($(#[$about:meta])* $name:ident, $report:ty) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, thiserror::Error)]
        #[error("{0}")]
        pub struct $name(Box<$report>);

        impl $name {
            /// The report.
            pub fn report(&self) -> &$report {
                &self.0
            }

            /// The report, owned.
            pub fn into_report(self) -> $report {
                *self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use report_as_error;

report_as_error! {
    /// The report of a comparison that failed, or whose pass is not to be trusted; see [`Report::into_result`].
    ///
    /// `Debug` prints the report as `Display` does: a `main` or a `#[test]` that ends with this error prints it by `Debug`. `?` converts it into
    /// `anyhow::Error` and `Box<dyn Error>`. It does not convert into [`hipverify::Error`](crate::Error), which says why there is no verdict.
    ///
    /// ```
    /// use hipverify::verify::{Tolerance, gpu_verify};
    /// use hipverify::{Device, DeviceMem};
    /// let device = Device::host();
    /// let reference = DeviceMem::from_slice(&device, &[1.0f32, 2.0])?;
    /// let result = DeviceMem::from_slice(&device, &[1.0f32, 2.5])?;
    /// let report = gpu_verify(&result, &reference, &Tolerance::exact())?;
    /// let mismatch = report.clone().into_result().unwrap_err();
    /// assert_eq!(format!("{mismatch:?}"), report.to_string());
    /// assert_eq!(mismatch.report().mismatches, 1);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    Mismatch, Report
}

impl Report {
    /// The report when it passes, else an error that prints as the report. An untrusted pass is an error where the options are
    /// [strict](super::Strict), as they are for derived tolerances. With [`Level::Counts`](super::Level::Counts) there are passes that only
    /// [`Level::All`](super::Level::All) would have called untrusted: [`counts_zeros`](Report::counts_zeros) says of a pass whether it may be one.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn into_result(self) -> Result<Report, Mismatch> {
        let fails = match self.verdict {
            Verdict::Pass => false,
            Verdict::Untrusted => self.strict,
            Verdict::Fail => true,
        };
        if fails { Err(Mismatch(Box::new(self))) } else { Ok(self) }
    }
}
