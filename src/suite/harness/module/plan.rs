//! One run of a kernel as a suite file describes it: its launches in order, the workspace that they share, and what the result holds before the first.

use super::super::problem::Problem;
use super::expression::Expression;
use super::line::{Fault, Fitted, LaunchLine};

/// The most bytes of a workspace: what memory suffices for decides.
const MOST_WORKSPACE: i128 = 1 << 62;

/// What the result holds before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Initial {
    /// Poison, another one each run: unwritten elements are found.
    #[default]
    Poison,
    /// Zeros, for kernels that add to the result.
    Zero,
}

/// What `[kernels.NAME]` says of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchPlan {
    pub(crate) launches: Vec<LaunchLine>,
    pub(crate) workspace_bytes: Option<Expression>,
    pub(crate) initial: Initial,
}

/// A run for one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FittedPlan {
    pub(crate) launches: Vec<Fitted>,
    pub(crate) workspace_bytes: Option<usize>,
}

impl LaunchPlan {
    /// The run for a problem. The error names the launch where there are several, the key, and the reason.
    pub(crate) fn fit(&self, problem: &Problem) -> Result<FittedPlan, String> {
        let said = |(key, reason): Fault| format!("`{key}`: {reason}");
        let launch = |(i, line): (usize, &LaunchLine)| {
            line.fit(problem).map_err(|fault| match self.launches.len() {
                1 => said(fault),
                _ => format!("launch {}: {}", i + 1, said(fault)),
            })
        };
        let launches = self.launches.iter().enumerate().map(launch).collect::<Result<_, _>>()?;
        let bytes = |text: &Expression| -> Result<usize, Fault> {
            let value = text.whole(&problem.numbers()).map_err(|e| ("workspace_bytes", e))?;
            let fits = usize::try_from(value).ok().filter(|_| value <= MOST_WORKSPACE);
            fits.ok_or_else(|| ("workspace_bytes", format!("`{text}` is {value}; it must be 0 to {MOST_WORKSPACE}")))
        };
        let workspace_bytes = self.workspace_bytes.as_ref().map(bytes).transpose().map_err(said)?;
        Ok(FittedPlan { launches, workspace_bytes })
    }
}
