//! The kernels of `hip/`, broken in one place.
//!
//! The trials of this suite run on the broken text, in a process of their own, and fail. The stand-in replaces the text before it compiles it.
//! Its devices are of architectures for which no build has images, so that all kernels are compiled from text.

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::process::Command;

tests! {
    StandIn: hash_without_a_barrier, maximum_of_half_the_lanes, model_gemm_without_a_barrier;
    // What the size of a wavefront has no part in.
    StandIn64: hash_past_the_end, value_past_the_end, largest_number_called_infinite, counter_of_blocks_not_set_back,
        product_and_sum_fused, random_numbers_of_a_round_less, bound_that_equality_exceeds, overflow_that_equality_does_not_reach,
        tile_of_bounds_past_the_end;
    // Its file takes long to compile.
    Asked: ring_without_a_barrier;
}

/// Where a file is broken, and the trials that must notice.
pub(super) struct Mutant {
    pub(super) file: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) trials: &'static str,
}

impl Mutant {
    pub(super) fn check(&self, target: &Target) -> Result<()> {
        let wavefront = target.device.wavefront();
        let program = std::env::current_exe().context("the name of this program")?;
        let done = Command::new(program)
            .args([self.trials, "--skip", "[host]"])
            .env("HIPVERIFY_STANDIN_DEVICES", if wavefront == 64 { "gfx906" } else { "gfx1101" })
            .env("HIPVERIFY_STANDIN_BREAK", self.file)
            .env("HIPVERIFY_STANDIN_BREAK_FROM", self.from)
            .env("HIPVERIFY_STANDIN_BREAK_TO", self.to)
            .env_remove("HIPVERIFY_HIP_LIBRARY")
            .output()?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        ensure!(!said.contains("could not be compiled"), "{} does not compile when it is broken:\n{said}", self.file);
        let failed = said.lines().any(|line| line.contains(&format!("wavefront {wavefront}]")) && line.ends_with("FAILED"));
        ensure!(failed && !done.status.success(), "no trial of {} fails:\n{said}", self.trials);
        Ok(())
    }
}

fn hash_without_a_barrier(target: &Target) -> Result<()> {
    let step = "if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];";
    let from = "if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];\n        __syncthreads();";
    Mutant { file: "hash.hip", from, to: step, trials: "hash::" }.check(target)
}

fn hash_past_the_end(target: &Target) -> Result<()> {
    Mutant { file: "hash.hip", from: "k < i * 8 + 8 && k < p.bytes", to: "k < i * 8 + 8", trials: "hash::" }.check(target)
}

fn value_past_the_end(target: &Target) -> Result<()> {
    Mutant { file: "set_value.hip", from: "first < p.bytes % 16", to: "first <= p.bytes % 16", trials: "memory::values" }.check(target)
}

fn maximum_of_half_the_lanes(target: &Target) -> Result<()> {
    Mutant {
        file: "warp.h",
        from: "SUBGROUP / 2; step > 0; step /= 2) {\n        const X",
        to: "SUBGROUP / 2; step > 1; step /= 2) {\n        const X",
        trials: "reduce_max::the_last",
    }
    .check(target)
}

/// A strict comparison made non-strict.
fn largest_number_called_infinite(target: &Target) -> Result<()> {
    Mutant { file: "reduce_max.hip", from: "x > 1.79", to: "x >= 1.79", trials: "reduce_max::the_largest" }.check(target)
}

/// The next launch has no last block.
fn counter_of_blocks_not_set_back(target: &Target) -> Result<()> {
    Mutant { file: "reduce_max.hip", from: "w.blocks_done = 0;", to: "", trials: "reduce_max::the_last" }.check(target)
}

fn model_gemm_without_a_barrier(target: &Target) -> Result<()> {
    let from = "__syncthreads();\n        // Only as many groups";
    Mutant { file: "model_gemm.hip", from, to: "// Only as many groups", trials: "model_gemm::" }.check(target)
}

fn product_and_sum_fused(target: &Target) -> Result<()> {
    let (from, to) = ("this->acc[i] = this->acc[i] + product;", "this->acc[i] = fmaf(a[0], b[0][i], this->acc[i]);");
    Mutant { file: "reference_sums.h", from, to, trials: "references::operands" }.check(target)
}

fn random_numbers_of_a_round_less(target: &Target) -> Result<()> {
    Mutant { file: "philox.h", from: "round < 10", to: "round < 9", trials: "fill::more" }.check(target)
}

/// The ring of the C library's numbers is read before all threads have written.
fn ring_without_a_barrier(target: &Target) -> Result<()> {
    let end = "store(fill.target, f.bits, place, bits);\n                }\n            }\n";
    let from = "store(fill.target, f.bits, place, bits);\n                }\n            }\n            __syncthreads();";
    Mutant { file: "fill.hip", from, to: end, trials: "fill::more" }.check(target)
}

/// A strict comparison made non-strict: elements at their bound.
fn bound_that_equality_exceeds(target: &Target) -> Result<()> {
    Mutant { file: "bound.hip", from: "fabs(r) <= limits.after;", to: "fabs(r) < limits.after;", trials: "bound::zeros" }.check(target)
}

fn overflow_that_equality_does_not_reach(target: &Target) -> Result<()> {
    Mutant {
        file: "bound.hip",
        from: "limits.before >= p.rule.overflow;",
        to: "limits.before > p.rule.overflow;",
        trials: "bound::overflow",
    }
    .check(target)
}

fn tile_of_bounds_past_the_end(target: &Target) -> Result<()> {
    Mutant { file: "bound.hip", from: "+ i < p.end", to: "+ i <= p.end", trials: "bound::every_layout" }.check(target)
}
