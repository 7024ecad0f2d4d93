//! The comparison's kernels, broken in one place; [`mutants`](super::mutants) says how.
//!
//! What is broken is compiled when it is first used. A trial ends with the first comparison that differs, so that those
//! are named whose first one shows it: most need one kernel. What the size of a wavefront has no part in is broken at one of them. Those that take longest run on demand;
//! of these, too, each run makes sure that the text to be broken is there.

use super::mutants::Mutant;
use crate::suite::{On, Test};
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify_sys::kernels::{HEADERS, SOURCES};

/// Begin with two tensors of f64: of numbers of one size, of which each counts in every sum; and half of any bit patterns, NaN among them.
const NUMBERS: &str = "same_bits::kinds";
const PATTERNS: &str = "same_bits::options";
/// Every pair of formats: those with f32 come early.
const FLOATS: &str = "same_bits::every_pair";
/// Begins with the formats of the last pairs.
const PAIRS: &str = "same_bits::formats_of_4_bits";
/// Sums without range for their squares, in some tiles.
const RANGES: &str = "ranges::sums_without_range";
/// Two formats of 8 bits, which have kernels of their own.
const BYTES: &str = "same_bits::large_tensors";
/// Comparisons that nothing waits for: the second kernel asks what the first one has found, and says whether it has explained it.
const ENQUEUED: &str = "async_verify::reports";

/// `on name: file, from => to, trials;`
macro_rules! mutants {
    ($($(#[$doc:meta])* $on:ident $name:ident: $file:literal, $from:literal => $to:literal, $trials:expr;)+) => {
        $($(#[$doc])* fn $name(target: &Target) -> Result<()> {
            Mutant { file: $file, from: $from, to: $to, trials: $trials }.check(target)
        })+
        pub const TESTS: &[Test] = &[
            Test { name: "texts_are_there", on: On::Host, run: texts_are_there },
            $(Test { name: stringify!($name), on: On::$on, run: $name }),+
        ];
        const TEXTS: &[(&str, &str, &str)] = &[$((stringify!($name), $file, $from)),+];
    };
}

fn texts_are_there(_: &Target) -> Result<()> {
    for (name, file, from) in TEXTS {
        let text = SOURCES.iter().chain(HEADERS).find(|s| s.name == *file).with_context(|| format!("{name}: {file}"))?.text;
        ensure!(text.matches(from).count() == 1, "{name}: `{from}` is not in {file}, or more than once");
    }
    Ok(())
}

mutants! {
    StandIn64 last_tile_dropped: "verify/pairs.h",
        "tiles((p.n + (1ull << walk.size_log) - 1) >> walk.size_log)"
        => "tiles(p.n >> walk.size_log)", NUMBERS;
    Asked zeros_before_a_run_counted: "verify/pairs.h", "(of_a_subgroup + all * before_a_run)" => "of_a_subgroup", NUMBERS;
    Asked as_many_loads_counted_in_the_last_run: "verify/pairs.h", "loads_in(full * together, run_log) *" => "(walk.steps << run_log) *", NUMBERS;
    /// The next launch goes on in the order of the last one, and leaves out its first runs.
    Asked turns_of_the_last_launch: "verify/pairs.h", "done = 0, p.workspace->next_run = 0" => "done = 0", "layouts::packed_in_ranges";
    Asked runs_taken_twice: "verify/pairs.h", "after_first() + same_in_wavefront(asked)" => "after_first() + same_in_wavefront(asked) / 2", "same_bits::maxima_that_blocks";
    Asked blocks_stop_before_the_end: "verify/pairs.h", "rows = (n - first + LOADS * walk.row - 1) >>" => "rows = (n - first) >>", NUMBERS;
    Asked last_partial_sums_dropped: "verify/sums.h", "half >= used" => "2 * half >= used", RANGES;
    Asked last_runs_dropped: "verify/sums.h", "rest = (runs - first + FINAL_ACCUMULATORS - 1) /" => "rest = (runs - first) /", NUMBERS;
    /// Of formats of 4 bits.
    StandIn64 patterns_exchanged: "verify/pair_counts.h", "(a[i] & low) | (r[i] & low) << 4" => "(r[i] & low) | (a[i] & low) << 4", PAIRS;
    StandIn64 product_and_sum_of_a_square_split: "verify/sums.h", "Real<T>::fused(d, d, sum[1][j])" => "d * d + sum[1][j]", NUMBERS;
    Asked partial_sums_joined_in_another_order: "verify/sums.h",
        "u32 step = 4; step > 0; step /= 2"
        => "u32 step = 1; step < 8; step *= 2", NUMBERS;
    StandIn64 read_past_the_end: "verify/pairs.h", "e < LOADED && index + e < n" => "e < LOADED", NUMBERS;
    /// Of rows with several matrices between the first is packed for all.
    StandIn64 middles_of_rows_packed_from_the_first: "verify/pack.hip", "(u64)middle * p.inner + column" => "column", "layouts::packed [";
    /// Both halves of a wavefront of 64 are told apart as lanes of one subgroup.
    StandIn64 lanes_of_the_wavefront: "warp.h", "threadIdx.x % SUBGROUP; }" => "threadIdx.x % warpSize; }", NUMBERS;
    StandIn64 index_of_the_worst_is_the_next: "verify/explain.h", "s.worst[t] = ~w.first[t]" => "s.worst[t] = ~w.first[t] + 1", NUMBERS;
    /// The threshold of a binade is that of its largest reference.
    StandIn64 thresholds_of_the_largest_references: "verify/explain.h", "low = Real<T>::smaller(power > 0 ? power * next : Real<T>::of(1), high)" => "low = high", "same_bits::maxima_that";
    Asked thresholds_without_ulps: "verify/explain.h",
        "further = p.all ? s.format"
        => "further = false ? s.format", NUMBERS;
    Asked results_of_the_opposite_sign_forgotten: "verify/ulps.h", "steps > top ? steps - top : 0" => "steps > top ? steps : 0", "same_bits::maxima_that";
    /// What was found in one tile is not sought in those that are read at the same time.
    Asked found_somewhere_is_found_first: "verify/explain.h", "s.first[metric] && ~s.first[metric] < begin" => "s.first[metric] != 0", "same_bits::maxima_that";
    /// Of each tile, the last candidates are forgotten.
    Asked candidates_left_in_the_queue: "verify/explain.h", "for (u32 step = 0; step <= steps; step++)" => "for (u32 step = 0; step < steps; step++)", NUMBERS;
    /// Where the bound by the smallest rtol is above the other, pairs that need a larger atol are forgotten.
    Asked bound_by_rtol_whatever_the_other: "verify/explain.h", "if (is_less(by_rtol, by_atol)) return by_rtol;" => "return by_rtol;", "same_bits::maxima_that";
    /// Subgroups skip what another one has met at the same time, at a larger index.
    StandIn64 pairs_of_a_turn_coded_at_once: "verify/explain_bytes.h", "u32 unknown = ~(codes ^ codes >> 1)" => "u32 unknown = ~(codes | codes >> 1)", "same_bits::pairs_of_bytes";
    StandIn64 pairs_with_codes_pass: "verify/explain_bytes.h", "? Codes::FAILS : Codes::PASSES) << shift" => "? Codes::FAILS : Codes::FAILS) << shift", "same_bits::pairs_of_bytes";
    Asked smallest_atol_not_raised: "verify/explain.h", " || !within(distance(a, r), rule.bound(rule.rtol, m, atol))" => "", NUMBERS;
    /// As it is with pairs that are not finite, which are replaced.
    Asked largest_difference_infinite: "verify/pairs.h", "largest = before;" => "", "same_bits::infinite";
    /// Those of 4-bit formats, which may begin within a byte.
    StandIn64 words_shifted_by_half: "verify/layout.h", "shift_down(w[i], w[i + 1], by)" => "shift_down(w[i], w[i + 1], by / 2)", PAIRS;
    Asked ranks_of_mismatches_from_one: "verify/explain.h", "listed + __popc(votes & ((1u << lane_of()) - 1))" => "listed + __popc(votes & ((2u << lane_of()) - 1))", NUMBERS;
    /// Small tensors have tiles that are smaller than a block.
    Asked mismatches_of_a_small_tile_and_the_next: "verify/explain.h", "index < end && index < p.n" => "index < p.n", NUMBERS;
    Asked ranks_of_mismatches_by_subgroup: "verify/explain.h", "rank += g < group ? s.fails[turn][g] : 0;" => "", NUMBERS;
    Asked distances_in_ulps_without_signs: "verify/ulps.h", "bits >> width & 1 ? -magnitude : magnitude" => "magnitude", NUMBERS;
    /// References that are half-way only where they are scaled.
    StandIn64 ties_no_longer_examined: "verify/ulps.h", ">= reach.steps + nearer;" => "> reach.steps + nearer;", "ranges::distances";
    /// 0 / 0, where a bound is 0.
    Asked ratios_of_equal_pairs: "verify/pair_counts.h", "if (d[0] > 0) {" => "{", PAIRS;
    Asked explanation_without_its_flag: "verify/explain.h", "if (t == 0) p.result->explained = 1;" => "", ENQUEUED;
    StandIn64 explained_whatever_the_verdict: "verify/explain.h",
        "if (p.explain != EXPLAIN_ON_FAILURE) return"
        => "return true; if (false) return", ENQUEUED;
    /// On wavefronts of 32 there is no such lane.
    StandIn32 shuffles_of_64_lanes: "verify/sums.h",
        "step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP)"
        => "step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, 64)", NUMBERS;
    /// In f64, references are held against the limits of those that are twice as large.
    Asked entries_of_the_next_binade: "verify/maxima.h", "(1023 - 152)" => "(1023 - 153)", NUMBERS;
    /// A wavefront that has nothing new but the largest difference forgets it.
    Asked largest_difference_alone_forgotten: "verify/maxima.h", "exceeds |= pattern(k) >" => "exceeds |= k > 0 && pattern(k) >", NUMBERS;
    /// Differences that are large only where references are.
    Asked absolute_maximum_not_in_the_table: "verify/maxima.h",
        "Real<double>::smaller(of_epsilon, absolute)"
        => "of_epsilon", FLOATS;
    Asked first_tile_made_anew_for_another: "verify/values.h",
        "wide_sums(pairs, rule, first_tile + tile)"
        => "wide_sums(pairs, rule, first_tile)", RANGES;
    Asked second_row_loaded_from_the_first: "verify/pairs.h",
        "x.advanced(w.rows.address_x, offset), k * walk.row"
        => "x.advanced(w.rows.address_x, offset), 0", PATTERNS;
    /// The number where a bin begins is counted in the one before.
    Asked edges_of_bins_excluded: "verify/histograms.h", "bits_of(from<T>(ENDS[h][k])) - 1)" => "bits_of(from<T>(ENDS[h][k])))", "numerics::";
    /// Fields of 4 bits overflow if all pairs are in one bin.
    Asked fields_of_bins_overflow: "verify/histograms.h", "15 / E" => "16 / E", "numerics::";
    /// Of words of four elements, which become parts of rows, the last two are not exchanged.
    Asked bytes_of_two_words_exchanged_alone: "verify/pack.hip",
        "exchange_bytes(x[0], x[1]), exchange_bytes(x[2], x[3])"
        => "exchange_bytes(x[0], x[1])", "layouts::packed [";
    /// What the ranges before the last have found is lost.
    Asked farthest_of_the_last_range_alone: "verify/explain.h", "if (p.first_run) most" => "if (false) most", "layouts::packed_in_ranges";
    Asked nan_counted_twice: "verify/values.h",
        "class_of(exchanged ? x : y)], 1u)"
        => "class_of(exchanged ? x : y)], class_of(x) == NOT_A_NUMBER ? 2u : 1u)", PATTERNS;
    /// Of two widths, the largest result is taken for that of the narrower format.
    Asked largest_of_operands_not_exchanged: "verify/values.h", "largest[0] = exchanged ? largest_y : largest_x" => "largest[0] = largest_x", "same_bits::formats_of_two_widths";
    Asked pairs_of_nan_and_number_called_same: "verify/pairs.h", "(a != a && r != r)" => "(a != a || r != r)", PATTERNS;
    /// Sums take the elements of a lane in their own order: formats of two widths show it.
    Asked rows_of_counts_for_sums: "verify/pairs.h",
        "PARTS == 1 ? LOADS : 1, true> All"
        => "PARTS == 1 ? LOADS : 1, false> All", "same_bits::every_pair";
    Asked signs_of_bytes_lost: "verify/decode.h",
        "(word >> (8 * byte) & 0xff) * COPIES"
        => "(word >> (8 * byte) & 0x7f) * COPIES", "same_bits::bytes";
    Asked second_nonfinite_pair_of_a_lane_left: "verify/pairs.h",
        "if (nonfinite) statistics.add_nonfinite"
        => "if (nonfinite && i == 0) statistics.add_nonfinite", PATTERNS;
    /// References above 1e-3 are held against the maximum of all, which is the larger one.
    Asked large_references_filtered_by_all: "verify/maxima.h", "? old : all" => "? all : all", NUMBERS;
    /// Differences that underflow as they are divided by a bound are held against the maxima like others.
    Asked remainders_underflow: "verify/maxima.h", "Real<T>::least() * (T)pow2(2 * Real<T>::DIGITS)" => "0", "ranges::quotients_at";
    /// An entry of the table has the ends of another half of a binade.
    Asked logarithms_of_quotients_off_by_half: "verify/histograms.h", "(of_d - bits_of(x) + HALF_BINADE) >> 23" => "(of_d - bits_of(x)) >> 23", "numerics::";
    /// A pair has a code and nobody knows its maxima.
    Asked maxima_of_new_pairs_forgotten: "verify/bytes.h", "            update(pair);\n" => "", BYTES;
    Asked nan_left_in_sums_of_bytes: "verify/bytes.h", "a[k] &= keep, r[k] &= keep;" => "", BYTES;
    /// A lane's second pair that is not finite takes the place of its first one, and the last one is left.
    Asked classes_of_waiting_bytes_forgotten: "verify/bytes.h", "if (wavefront_any(apart && waiting)) count_waiting();" => "", BYTES;
    Asked last_classes_of_bytes_left: "verify/bytes.h", "    known.count_waiting();\n" => "", BYTES;
}
