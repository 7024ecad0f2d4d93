//! Flags that name the scales of the operands of a GEMM.

use super::input::{self, Source};
use crate::check::Check;
use crate::device::TensorRef;

/// Scales of A and B.
#[derive(Debug, clap::Args)]
pub(super) struct ScaleFlags {
    /// Scales of A: A's elements are multiplied by them. Of A's dimensions, as its file has them, with one scale for each block; 1 element is the scale of all. u8 holds the codes of f8e8m0
    #[arg(long, value_name = "FILE[:TENSOR]")]
    scale_a: Option<String>,
    /// The same of B
    #[arg(long, value_name = "FILE[:TENSOR]")]
    scale_b: Option<String>,
    /// Rows and columns of a block of A, as its file has them, where the shapes of A and its scales do not say that: 1x128
    #[arg(long, value_name = "RxC", value_parser = block, requires = "scale_a")]
    scale_block_a: Option<[usize; 2]>,
    /// The same of B
    #[arg(long, value_name = "RxC", value_parser = block, requires = "scale_b")]
    scale_block_b: Option<[usize; 2]>,
}

/// Reads `1x128`.
fn block(text: &str) -> Result<[usize; 2], String> {
    let extents = input::shape(text)?.0;
    <[usize; 2]>::try_from(extents)
        .ok()
        .filter(|block| !block.contains(&0))
        .ok_or_else(|| "rows and columns from 1 are wanted, such as 1x128".to_owned())
}

impl ScaleFlags {
    /// The files of the scales, A's first.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        [&self.scale_a, &self.scale_b].into_iter().flatten().map(|text| Source::beside(text))
    }

    /// The check with these scales, the tensors of [`sources`](ScaleFlags::sources).
    pub(super) fn of<'a>(&self, check: Check<'a>, tensors: &'a [TensorRef<'a>]) -> Check<'a> {
        let mut tensors = tensors.iter();
        let (a, b) = (self.scale_a.as_ref().and_then(|_| tensors.next()), self.scale_b.as_ref().and_then(|_| tensors.next()));
        let check = a.into_iter().fold(check, Check::scale_a);
        let check = b.into_iter().fold(check, Check::scale_b);
        let check = self.scale_block_a.into_iter().fold(check, Check::scale_block_a);
        self.scale_block_b.into_iter().fold(check, Check::scale_block_b)
    }
}
