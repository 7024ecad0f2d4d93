//! The comparison's kernels, broken in one place; [`mutants`](super::mutants) says how.
//!
//! Every file that includes what is broken is compiled when it is first used. A trial ends with the first comparison that differs, so that those
//! are named whose first one shows it: most need one file. What the size of a wavefront has no part in is broken at one of them.

use super::mutants::Mutant;
use crate::suite::tests;
use crate::target::Target;
use anyhow::Result;

tests! {
    StandIn64: last_tile_dropped, zeros_before_a_run_counted, least_binade_raised_too_far, second_row_loaded_from_the_first, patterns_exchanged, product_and_sum_of_a_square_split, partial_sums_joined_in_another_order, read_past_the_end, edges_of_bins_excluded,
        middles_of_rows_packed_from_the_first, bytes_of_two_words_exchanged_alone, farthest_of_the_last_range_alone, nan_counted_twice, pairs_of_nan_and_number_called_same, lanes_of_the_wavefront, index_of_the_worst_is_the_next,
        rows_of_counts_for_sums, signs_of_bytes_lost, smallest_atol_not_raised, ranks_of_mismatches_from_one, second_nonfinite_pair_of_a_lane_left, large_references_filtered_by_all, remainders_underflow, logarithms_of_quotients_off_by_half, largest_difference_infinite, words_shifted_by_half, distances_in_ulps_without_signs, ties_no_longer_examined, ratios_of_equal_pairs, explanation_without_its_flag, explained_whatever_the_verdict, maxima_of_new_pairs_forgotten, absolute_maximum_not_in_the_table, first_tile_made_anew_for_another, nan_left_in_sums_of_bytes;
    StandIn32: shuffles_of_64_lanes;
}

/// Begin with two tensors of f64: of numbers of one size, of which each counts in every sum; and half of any bit patterns, NaN among them.
const NUMBERS: &str = "same_bits::kinds";
const PATTERNS: &str = "same_bits::options";
/// Every pair of formats: those with f32 come early.
const FLOATS: &str = "same_bits::every_pair";
/// Begins with the formats of the last pairs.
const PAIRS: &str = "same_bits::formats_of_4_bits";
/// Sums without range for their squares, in some tiles.
const RANGES: &str = "same_bits::sums_without_range";
/// Two formats of 8 bits, which have kernels of their own.
const BYTES: &str = "same_bits::large_tensors";
/// Comparisons that nothing waits for: the second kernel asks what the first one has found, and says whether it has explained it.
const ENQUEUED: &str = "async_verify::reports";

fn last_tile_dropped(target: &Target) -> Result<()> {
    let (from, to) = ("tiles((p.n + (1ull << walk.size_log) - 1) >> walk.size_log)", "tiles(p.n >> walk.size_log)");
    Mutant { file: "verify/pairs.h", from, to, trials: NUMBERS }.check(target)
}

fn zeros_before_a_run_counted(target: &Target) -> Result<()> {
    Mutant { file: "verify/pairs.h", from: " + taken_runs * before_a_run", to: "", trials: NUMBERS }.check(target)
}

/// Differences from references of zero have to be twice the largest to be checked.
fn least_binade_raised_too_far(target: &Target) -> Result<()> {
    Mutant { file: "verify/maxima.h", from: "pow2(-Real<T>::BIAS)", to: "pow2(1 - Real<T>::BIAS)", trials: NUMBERS }.check(target)
}

/// Differences that are large only where references are.
fn absolute_maximum_not_in_the_table(target: &Target) -> Result<()> {
    let (from, to) = ("Real<double>::smaller(epsilon * (double)rule.binade(least), absolute)", "epsilon * (double)rule.binade(least)");
    Mutant { file: "verify/maxima.h", from, to, trials: FLOATS }.check(target)
}

fn first_tile_made_anew_for_another(target: &Target) -> Result<()> {
    Mutant {
        file: "verify/values.h",
        from: "wide_sums(pairs, rule, first_tile + tile)",
        to: "wide_sums(pairs, rule, first_tile)",
        trials: RANGES,
    }
    .check(target)
}

fn second_row_loaded_from_the_first(target: &Target) -> Result<()> {
    let (from, to) = ("a.advanced(w.rows.address_a, offset), k * walk.row", "a.advanced(w.rows.address_a, offset), 0");
    Mutant { file: "verify/pairs.h", from, to, trials: PATTERNS }.check(target)
}

/// Of formats of 4 bits.
fn patterns_exchanged(target: &Target) -> Result<()> {
    let (from, to) = ("(a[i] & low) | (r[i] & low) << 4", "(r[i] & low) | (a[i] & low) << 4");
    Mutant { file: "verify/pair_counts.h", from, to, trials: PAIRS }.check(target)
}

fn product_and_sum_of_a_square_split(target: &Target) -> Result<()> {
    let (from, to) = ("Real<T>::fused(d, d, sum[1][j])", "d * d + sum[1][j]");
    Mutant { file: "verify/sums.h", from, to, trials: NUMBERS }.check(target)
}

fn partial_sums_joined_in_another_order(target: &Target) -> Result<()> {
    let (from, to) = ("u32 step = 4; step > 0; step /= 2", "u32 step = 1; step < 8; step *= 2");
    Mutant { file: "verify/sums.h", from, to, trials: NUMBERS }.check(target)
}

fn read_past_the_end(target: &Target) -> Result<()> {
    Mutant { file: "verify/pairs.h", from: "e < LOADED && index + e < n", to: "e < LOADED", trials: NUMBERS }.check(target)
}

/// The number where a bin begins is counted in the one before.
fn edges_of_bins_excluded(target: &Target) -> Result<()> {
    let (from, to) = ("bits_of(from<T>(ENDS[h][k])) - 1)", "bits_of(from<T>(ENDS[h][k])))");
    Mutant { file: "verify/histograms.h", from, to, trials: "numerics::" }.check(target)
}

/// Of rows with several matrices between the first is packed for all.
fn middles_of_rows_packed_from_the_first(target: &Target) -> Result<()> {
    let (from, to) = ("(u64)middle * p.inner + column", "column");
    Mutant { file: "verify/pack.hip", from, to, trials: "layouts::packed [" }.check(target)
}

/// Of words of four elements, which become parts of rows, the last two are not exchanged.
fn bytes_of_two_words_exchanged_alone(target: &Target) -> Result<()> {
    let (from, to) = ("exchange_bytes(x[0], x[1]), exchange_bytes(x[2], x[3])", "exchange_bytes(x[0], x[1])");
    Mutant { file: "verify/pack.hip", from, to, trials: "layouts::packed [" }.check(target)
}

/// What the ranges before the last have found is lost.
fn farthest_of_the_last_range_alone(target: &Target) -> Result<()> {
    Mutant { file: "verify/explain.h", from: "if (p.first_run) most", to: "if (false) most", trials: "layouts::packed_in_ranges" }
        .check(target)
}

fn nan_counted_twice(target: &Target) -> Result<()> {
    let (from, to) = ("class_of(r)], 1u)", "class_of(r)], class_of(a) == NOT_A_NUMBER ? 2u : 1u)");
    Mutant { file: "verify/values.h", from, to, trials: PATTERNS }.check(target)
}

fn pairs_of_nan_and_number_called_same(target: &Target) -> Result<()> {
    Mutant { file: "verify/pairs.h", from: "(a != a && r != r)", to: "(a != a || r != r)", trials: PATTERNS }.check(target)
}

/// Both halves of a wavefront of 64 are told apart as lanes of one subgroup.
fn lanes_of_the_wavefront(target: &Target) -> Result<()> {
    let (from, to) = ("threadIdx.x % SUBGROUP; }", "threadIdx.x % warpSize; }");
    Mutant { file: "warp.h", from, to, trials: NUMBERS }.check(target)
}

/// On wavefronts of 32 there is no such lane.
fn shuffles_of_64_lanes(target: &Target) -> Result<()> {
    let (from, to) = (
        "step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP)",
        "step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, 64)",
    );
    Mutant { file: "verify/sums.h", from, to, trials: NUMBERS }.check(target)
}

fn index_of_the_worst_is_the_next(target: &Target) -> Result<()> {
    let (from, to) = ("s.worst[t] = ~w.first[t]", "s.worst[t] = ~w.first[t] + 1");
    Mutant { file: "verify/explain.h", from, to, trials: NUMBERS }.check(target)
}

/// Sums take the elements of a lane in their own order: formats of two widths show it.
fn rows_of_counts_for_sums(target: &Target) -> Result<()> {
    let (from, to) = ("PARTS == 1 ? LOADS : 1, true> All", "PARTS == 1 ? LOADS : 1, false> All");
    Mutant { file: "verify/pairs.h", from, to, trials: "same_bits::every_pair" }.check(target)
}

fn signs_of_bytes_lost(target: &Target) -> Result<()> {
    let (from, to) = ("(word >> (8 * byte) & 0xff) * COPIES", "(word >> (8 * byte) & 0x7f) * COPIES");
    Mutant { file: "verify/decode.h", from, to, trials: "same_bits::bytes" }.check(target)
}

fn smallest_atol_not_raised(target: &Target) -> Result<()> {
    let (from, to) = ("base[i], passing[1]) - d[i]", "base[i], passing[1]) + d[i]");
    Mutant { file: "verify/explain.h", from, to, trials: NUMBERS }.check(target)
}

fn second_nonfinite_pair_of_a_lane_left(target: &Target) -> Result<()> {
    let (from, to) = ("if (nonfinite) on_nonfinite", "if (nonfinite && i == 0) on_nonfinite");
    Mutant { file: "verify/pairs.h", from, to, trials: PATTERNS }.check(target)
}

/// References above 1e-3 are held against the maximum of all, which is the larger one.
fn large_references_filtered_by_all(target: &Target) -> Result<()> {
    let (from, to) = ("? old : exponent ? all : 0", "? all : exponent ? all : 0");
    Mutant { file: "verify/maxima.h", from, to, trials: NUMBERS }.check(target)
}

/// Differences that underflow as they are divided are held against the maxima like others.
fn remainders_underflow(target: &Target) -> Result<()> {
    let (from, to) = ("return exp2_f32(48 - 149);", "return 0;");
    Mutant { file: "verify/maxima.h", from, to, trials: NUMBERS }.check(target)
}

/// An entry of the table has the ends of another half of a binade.
fn logarithms_of_quotients_off_by_half(target: &Target) -> Result<()> {
    let (from, to) = ("(H == BY_EPSILON ? 0 : HALF_BINADE)) >> 23", "0) >> 23");
    Mutant { file: "verify/histograms.h", from, to, trials: "numerics::" }.check(target)
}

/// As it is with pairs that are not finite, which are replaced.
fn largest_difference_infinite(target: &Target) -> Result<()> {
    Mutant { file: "verify/pairs.h", from: "largest = before;", to: "", trials: "same_bits::infinite" }.check(target)
}

/// Those of 4-bit formats, which may begin within a byte.
fn words_shifted_by_half(target: &Target) -> Result<()> {
    Mutant { file: "verify/layout.h", from: "| w[i]) >> by)", to: "| w[i]) >> by / 2)", trials: PAIRS }.check(target)
}

fn ranks_of_mismatches_from_one(target: &Target) -> Result<()> {
    let (from, to) = ("votes & ((1u << lane_of()) - 1)", "votes & ((2u << lane_of()) - 1)");
    Mutant { file: "verify/explain.h", from, to, trials: NUMBERS }.check(target)
}

fn distances_in_ulps_without_signs(target: &Target) -> Result<()> {
    let (from, to) = ("bits >> width & 1 ? -magnitude : magnitude", "magnitude");
    Mutant { file: "verify/ulps.h", from, to, trials: NUMBERS }.check(target)
}

/// References that are half-way only where they are scaled.
fn ties_no_longer_examined(target: &Target) -> Result<()> {
    Mutant { file: "verify/ulps.h", from: ">= steps;", to: "> steps;", trials: "same_bits::distances" }.check(target)
}

/// 0 / 0, where a bound is 0.
fn ratios_of_equal_pairs(target: &Target) -> Result<()> {
    Mutant { file: "verify/pair_counts.h", from: "if (d[0] > 0) {", to: "{", trials: PAIRS }.check(target)
}

fn explanation_without_its_flag(target: &Target) -> Result<()> {
    Mutant { file: "verify/explain.h", from: "if (t == 0) p.result->explained = 1;", to: "", trials: ENQUEUED }.check(target)
}

fn explained_whatever_the_verdict(target: &Target) -> Result<()> {
    let (from, to) = ("if (p.explain != EXPLAIN_ON_FAILURE) return", "return true; if (false) return");
    Mutant { file: "verify/explain.h", from, to, trials: ENQUEUED }.check(target)
}

/// A pair has a code and nobody knows its maxima.
fn maxima_of_new_pairs_forgotten(target: &Target) -> Result<()> {
    Mutant { file: "verify/bytes.h", from: "            update(pair);\n", to: "", trials: BYTES }.check(target)
}

fn nan_left_in_sums_of_bytes(target: &Target) -> Result<()> {
    Mutant { file: "verify/bytes.h", from: "a[k] &= keep, r[k] &= keep;", to: "", trials: BYTES }.check(target)
}
