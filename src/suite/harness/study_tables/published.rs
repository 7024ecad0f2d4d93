//! The tables of the fp16 study of 4 August 2022 as its three versions print them, and what each column is a mean of.
//!
//! The versions agree in every figure; the third has the row of pass rates in addition.

use super::{Column, Metric, Row, Statistic, Table};

/// Kernel and validator; the fourth combination never differs and is in no table.
pub(super) type Combination = (&'static str, &'static str);

const XDLOPS_CPU: Combination = ("xdlops", "pv");
const XDLOPS_GPU: Combination = ("xdlops", "pv-with-gpu");
const NONXDLOPS_CPU: Combination = ("nonxdlops", "pv");

/// What every table but that of the validators is a mean of.
pub(super) const ALL: [Combination; 3] = [XDLOPS_CPU, XDLOPS_GPU, NONXDLOPS_CPU];

pub(super) const RANGES: [&str; 4] = ["r0", "r1", "r4", "r5"];

const fn of_range(name: &'static str, arch: &'static str, range: &'static [&'static str]) -> Column {
    Column { name, arch, ranges: range, combinations: &ALL }
}

const fn of_validator(name: &'static str, combination: &'static [Combination]) -> Column {
    Column { name, arch: "gfx90a", ranges: &RANGES, combinations: combination }
}

const fn row(metric: Metric, statistic: Statistic, figures: &'static [&'static str]) -> Row {
    Row { metric, statistic, figures }
}

const RANGES_ALONE: &str = "A figure is the mean over the tests (or the largest of them) for each of xdlops+cpu, xdlops+gpu and nonxdlops+cpu, then the mean of those three.";

use Metric::{Absolute, Epsilon, Relative, RelativeOld, Rms};
use Statistic::{Mean, Most, PassRate};

/// Section 2.1.
const MAGNITUDES: Table = Table {
    title: "2.1 Effects of input number magnitude (MI200)",
    note: RANGES_ALONE,
    columns: &[of_range("r0", "gfx90a", &["r0"]), of_range("r1", "gfx90a", &["r1"])],
    rows: &[
        row(Epsilon, Mean, &["314.24", "1,627.64"]),
        row(Epsilon, Most, &["2,030.33", "23,316.33"]),
        row(Absolute, Mean, &["0.15", "3"]),
        row(Absolute, Most, &["5.67", "26.67"]),
        row(Relative, Mean, &["4.42", "2.79"]),
        row(Relative, Most, &["111.33", "105.67"]),
        row(RelativeOld, Mean, &["0.02", "0.1"]),
        row(RelativeOld, Most, &["0.1", "2.2"]),
        row(Rms, Mean, &["2.12E-06", "1.31E-06"]),
        row(Rms, Most, &["1.55E-05", "6.57E-06"]),
    ],
};

/// Section 2.2: subnormals in two versions, underflow and overflow in the third.
const OVERFLOW: Table = Table {
    title: "2.2 Effects of subnormal numbers and of overflow (MI200)",
    note: "As 2.1. The pass rate is the share of all tests of the three combinations with maxEpsilonDiff <= 1: a test that overflows does not pass.",
    columns: &[of_range("r0", "gfx90a", &["r0"]), of_range("r4", "gfx90a", &["r4"]), of_range("r5", "gfx90a", &["r5"])],
    rows: &[
        row(Epsilon, Mean, &["314.24", "0.73", "0.72"]),
        row(Epsilon, Most, &["2,030.33", "1", "1"]),
        row(Epsilon, PassRate, &["27.73%", "100%", "97.82%"]),
        row(Absolute, Mean, &["0.15", "2.67", "4.99"]),
        row(Absolute, Most, &["5.67", "32", "32"]),
        row(Relative, Mean, &["4.42", "5.64E-04", "4.69E-04"]),
        row(Relative, Most, &["111.33", "9.80E-04", "9.80E-04"]),
        row(RelativeOld, Mean, &["2.06E-02", "5.64E-04", "4.69E-04"]),
        row(RelativeOld, Most, &["9.50E-02", "9.80E-04", "9.80E-04"]),
        row(Rms, Mean, &["2.12E-06", "5.34E-06", "3.21E-06"]),
        row(Rms, Most, &["1.55E-05", "2.47E-05", "1.25E-05"]),
    ],
};

/// Section 2.3.
const VALIDATORS: Table = Table {
    title: "2.3 Effects of validation methods (MI200)",
    note: "A figure is the mean over the tests (or the largest of them) for each of the four ranges, then the mean of those four.",
    columns: &[
        of_validator("xdlops+cpu", &[XDLOPS_CPU]),
        of_validator("xdlops+gpu", &[XDLOPS_GPU]),
        of_validator("nonxdlops+cpu", &[NONXDLOPS_CPU]),
    ],
    rows: &[
        row(Epsilon, Mean, &["352.98", "818.53", "285.98"]),
        row(Epsilon, Most, &["3,959.25", "9,306.00", "5,746.25"]),
        row(Absolute, Mean, &["3.13", "3.76", "1.21"]),
        row(Absolute, Most, &["24.13", "28.00", "20.13"]),
        row(Relative, Mean, &["2.01", "2.82", "0.57"]),
        row(Relative, Most, &["68.5", "81.50", "12.75"]),
        row(RelativeOld, Mean, &["2.45E-02", "4.96E-02", "1.72E-02"]),
        row(RelativeOld, Most, &["3.20E-01", "8.43E-01", "5.60E-01"]),
        row(Rms, Mean, &["2.75E-06", "4.57E-06", "1.67E-06"]),
        row(Rms, Most, &["1.26E-05", "2.03E-05", "1.16E-05"]),
    ],
};

/// Section 2.4.
const CHIPS: Table = Table {
    title: "2.4 Difference between MI100 and MI200",
    note: RANGES_ALONE,
    columns: &[
        of_range("MI200(r0)", "gfx90a", &["r0"]),
        of_range("MI100(r0)", "gfx908", &["r0"]),
        of_range("MI200(r1)", "gfx90a", &["r1"]),
        of_range("MI100(r1)", "gfx908", &["r1"]),
        of_range("MI200(r4)", "gfx90a", &["r4"]),
        of_range("MI100(r4)", "gfx908", &["r4"]),
        of_range("MI200(r5)", "gfx90a", &["r5"]),
        of_range("MI100(r5)", "gfx908", &["r5"]),
    ],
    rows: &[
        row(Epsilon, Mean, &["314.24", "90.50", "1,627.64", "1,757.24", "0.73", "0.72", "0.72", "0.72"]),
        row(Epsilon, Most, &["2,030.33", "1,739.00", "23,316.33", "40,028.00", "1.00", "1.00", "1.00", "1.00"]),
        row(Absolute, Mean, &["0.15", "0.15", "3.00", "2.95", "2.67", "2.67", "4.99", "4.99"]),
        row(Absolute, Most, &["5.67", "5.67", "26.67", "26.67", "32.00", "32.00", "32.00", "32.00"]),
        row(Relative, Mean, &["4.42", "1.70", "2.79", "2.68", "5.64E-04", "5.63E-04", "4.69E-04", "4.68E-04"]),
        row(Relative, Most, &["111.33", "34.00", "105.67", "92.67", "9.80E-04", "9.80E-04", "9.80E-04", "9.80E-04"]),
        row(RelativeOld, Mean, &["0.02", "0.01", "0.10", "0.10", "5.64E-04", "5.63E-04", "4.69E-04", "4.68E-04"]),
        row(RelativeOld, Most, &["0.10", "0.09", "2.20", "2.22", "9.80E-04", "9.80E-04", "9.80E-04", "9.80E-04"]),
        row(Rms, Mean, &["2.12E-06", "1.80E-06", "1.31E-06", "1.31E-06", "5.34E-06", "5.33E-06", "3.21E-06", "3.21E-06"]),
        row(Rms, Most, &["1.55E-05", "1.55E-05", "6.57E-06", "6.77E-06", "2.47E-05", "2.47E-05", "1.25E-05", "1.25E-05"]),
    ],
};

/// The tables of means, in the order of the text.
pub(super) const TABLES: [Table; 4] = [MAGNITUDES, OVERFLOW, VALIDATORS, CHIPS];

/// A histogram as printed: counts, then the largest value with those of validator and kernel.
pub(super) struct Printed {
    pub(super) name: &'static str,
    /// 0, below 1e-6, 1e-5, ... 1, and more; differing elements whose validator's value is zero are not in them.
    pub(super) relative: [u64; 9],
    pub(super) largest_relative: [&'static str; 3],
    /// 0, 1, 2, 3 to 10, 11 to 100, more.
    pub(super) epsilon: [u64; 6],
    pub(super) largest_epsilon: [&'static str; 3],
}

/// Section 2.5.
pub(super) const WORST: Printed = Printed {
    name: "worst test",
    relative: [205_235_692, 0, 0, 0, 244_810, 15_725, 925, 0, 0],
    largest_relative: ["0.055", "0.00101471", "0.001070023"],
    epsilon: [205_235_692, 259_106, 11_473, 12_039, 2_331, 255],
    largest_epsilon: ["850", "3.50475E-05", "8.57115E-05"],
};

/// Section 3, one for each validator.
pub(super) const BETTER: [Printed; 3] = [
    Printed {
        name: "original",
        relative: [801_676, 0, 0, 0, 970, 60, 3, 0, 0],
        largest_relative: ["0.027", "-0.001073837", "-0.001045227"],
        epsilon: [801_676, 1_047, 46, 39, 8, 0],
        largest_epsilon: ["35", "-0.001625061", "-0.00165844"],
    },
    Printed {
        name: "accumulate 4",
        relative: [802_015, 0, 0, 0, 704, 60, 3, 0, 0],
        largest_relative: ["0.028", "-0.001074791", "-0.001045227"],
        epsilon: [802_015, 722, 40, 32, 7, 0],
        largest_epsilon: ["35", "-0.001625061", "-0.00165844"],
    },
    Printed {
        name: "flush subnormals",
        relative: [802_369, 0, 0, 0, 364, 0, 0, 0, 0],
        largest_relative: ["0.00097", "0.125244141", "0.125366211"],
        epsilon: [802_369, 413, 19, 15, 0, 0],
        largest_epsilon: ["8", "9.07E-05", "9.02E-05"],
    },
];
