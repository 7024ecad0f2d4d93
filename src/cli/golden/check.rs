//! What became of tensors since they were recorded.
//!
//! Bitwise a tensor agrees when format, shape and hash are the same. By a tolerance it agrees when its statistics do, by bounds that no tensor exceeds whose elements are all
//! within that tolerance, |a - r| <= t(r) = rtol |r| + atol with rtol < 1:
//!
//! * min and max: r - t(r) and r + t(r) grow with r, so that |min a - min r| <= t(min r), and so for max;
//! * mean and mean of |a|: the mean of t(r), rtol mean |r| + atol;
//! * rms: the norm of a - r over √n is at most that of t(r), which is at most rtol rms r + atol.
//!
//! A comparison of formats below f64 evaluates both sides in f32, each operation to nearest: its |a - r| and its rtol |r| + atol are each off by up to a few times 2^-24, of which the bounds
//! take account. So a tensor that a comparison of its elements would pass is never refused; one that it would fail may agree. Numbers of NaN and infinite elements have to be the same.

use super::file::{Entry, Recorded};
use crate::dtype::DType;
use crate::verify::{Limits, Scale, apart, short};
use anyhow::Result;
use std::collections::BTreeMap;

/// What became of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// The same bits.
    Same,
    /// Other bits, within the tolerance.
    Within,
    /// Why it does not agree.
    Differs(String),
    /// Recorded, and not there.
    Missing,
    /// There, and not recorded.
    New,
}

impl State {
    pub(super) fn agrees(&self) -> bool {
        matches!(self, State::Same | State::Within)
    }

    /// The state for machines.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            State::Same => "same",
            State::Within => "within",
            State::Differs(_) => "differs",
            State::Missing => "missing",
            State::New => "new",
        }
    }

    /// Why it does not agree.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            State::Same | State::Within => None,
            State::Differs(reason) => Some(reason),
            State::Missing => Some("was recorded, and is not there"),
            State::New => Some("is there, and was not recorded"),
        }
    }
}

/// Holds tensors against what was recorded, by name. `limits` makes the limits of a tensor; bitwise where there are none.
pub(super) fn compare(
    recorded: &Recorded,
    found: &BTreeMap<String, Entry>,
    limits: &dyn Fn(&str, &Entry) -> Result<Option<Limits>>,
) -> Result<Vec<(String, State)>> {
    let mut names: Vec<&String> = recorded.tensors.keys().chain(found.keys()).collect();
    names.sort();
    names.dedup();
    let state = |name: &String| -> Result<State> {
        Ok(match (recorded.tensors.get(name), found.get(name)) {
            (Some(golden), Some(entry)) => of(golden, entry, limits(name, golden)?.as_ref())?,
            (Some(_), None) => State::Missing,
            (None, _) => State::New,
        })
    };
    names.into_iter().map(|name| Ok((name.clone(), state(name)?))).collect()
}

fn of(golden: &Entry, entry: &Entry, limits: Option<&Limits>) -> Result<State> {
    if (&golden.dtype, &golden.shape) != (&entry.dtype, &entry.shape) {
        return Ok(State::Differs(format!("{} where {} was recorded", entry.kind(), golden.kind())));
    }
    if golden.hash == entry.hash {
        return Ok(State::Same);
    }
    let Some(limits) = limits else { return Ok(State::Differs(format!("other bits{}", changes(golden, entry)))) };
    let bounds = bounds(golden, limits)?;
    let mut beyond: Vec<String> = [("nan", golden.nan, entry.nan), ("inf", golden.inf, entry.inf)]
        .into_iter()
        .filter(|(_, r, a)| r != a)
        .map(|(name, r, a)| format!("{name} {a} where {r} were recorded"))
        .collect();
    for (((name, r), (_, a)), bound) in golden.statistics().into_iter().zip(entry.statistics()).zip(bounds) {
        match (r, a) {
            (Some(r), Some(a)) if (a - r).abs() > bound => {
                let [r_text, a_text] = [r, a].map(in_full);
                beyond.push(format!("{name} {a_text} where {r_text} was recorded: {:e} is more than {bound:e}", (a - r).abs()));
            }
            (Some(_), Some(_)) | (None, None) => {}
            // There are no finite elements, or their sums are beyond f64, on one side.
            _ => {
                let [r, a] = texts([r, a]);
                beyond.push(format!("{name} {a} where {r} was recorded"));
            }
        }
    }
    Ok(if beyond.is_empty() { State::Within } else { State::Differs(beyond.join("; ")) })
}

/// The largest difference of each statistic.
fn bounds(golden: &Entry, limits: &Limits) -> Result<[f64; 5]> {
    let [min, max] = [golden.min, golden.max].map(Option::unwrap_or_default);
    let largest = min.abs().max(max.abs());
    // Neither is larger, also where sums of it are beyond f64.
    let [mean_abs, rms] = [golden.mean_abs, golden.rms].map(|x| x.unwrap_or(largest));
    let scale = match limits.tolerance.scale() {
        None => 0.0,
        Some(Scale::Largest) => largest,
        Some(Scale::LargestBinade) if largest == 0.0 => 0.0,
        Some(Scale::LargestBinade) => 2f64.powf(largest.log2().floor()),
        Some(Scale::Mean) => mean_abs,
        Some(Scale::Rms) => rms,
    };
    let (rtol, atol) = (limits.tolerance.rtol(), limits.tolerance.atol(scale));
    // A binade is at most |r|, or that of the least normal number.
    let format: DType = golden.dtype.parse()?;
    let least = format.float_format().filter(|_| limits.tolerance.is_by_binade()).map_or(0.0, |f| f.min_normal());
    let in_f32 = format != DType::F64 && format.float_format().is_some();
    // Tolerance, product, sum and difference are rounded: (1 + 2^-24)^4 < 1 + 2^-21; what is subnormal by up to half of 2^-149 each.
    let (widened, subnormal) = if in_f32 { (1.0 + 2f64.powi(-21), 2f64.powi(-147)) } else { (1.0 + 2f64.powi(-50), 0.0) };
    let bound = |r: f64| {
        let explained = (rtol * (r + least) + atol) * widened + subnormal * (1.0 + r);
        // Sums of f64 are a little off themselves, those of the tensor as well, which is as large as both.
        explained + 1e-12 * (r.max(rms) + explained)
    };
    Ok([min.abs(), max.abs(), mean_abs, mean_abs, rms].map(bound))
}

/// All digits of a number, without the zeros of a magnitude far from 1.
fn in_full(x: f64) -> String {
    if x == 0.0 || (1e-5..1e16).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// A statistic as it was recorded and as it is, where they differ.
fn texts(pair: [Option<f64>; 2]) -> [String; 2] {
    match pair {
        [Some(r), Some(a)] => apart([r, a], 6),
        pair => pair.map(|x| x.map_or("none".to_owned(), |x| short(x, 6))),
    }
}

/// The statistics that changed, as a first hint at what happened.
fn changes(golden: &Entry, entry: &Entry) -> String {
    let counts = |e: &Entry| [("nan", Some(e.nan as f64)), ("inf", Some(e.inf as f64))];
    let pairs = golden.statistics().into_iter().chain(counts(golden)).zip(entry.statistics().into_iter().chain(counts(entry)));
    let changed = pairs.filter(|((_, r), (_, a))| r != a).map(|((name, r), (_, a))| format!("{name} {}", texts([r, a]).join(" → ")));
    let changed: Vec<String> = changed.collect();
    if changed.is_empty() { ", the same statistics".to_owned() } else { format!(": {}", changed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Layout, TensorRef};
    use crate::verify::{Profile, Tolerance};

    fn entry(values: &[f32]) -> Entry {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Entry::of(&TensorRef::from_host_bytes(&bytes, DType::F32, Layout::contiguous(&[values.len()]).unwrap()).unwrap(), 0).unwrap()
    }

    /// rtol 1.3e-6, atol 1e-5.
    fn torch() -> Limits {
        Profile::Torch.limits(DType::F32, DType::F32, None).unwrap()
    }

    #[test]
    fn states_of_a_tensor() {
        let golden = entry(&[1.0, -2.0, 4.0]);
        for (values, bitwise, tolerant, reason) in [
            (&[1.0, -2.0, 4.0][..], "same", "same", "the same bits"),
            (&[1.0, -2.0, 4.000_001], "other bits: ", "within", "an ulp"),
            (&[1.0, -2.0, 4.000_001], "max 4 → 4.000001, mean 1 → 1.0000003", "within", "digits that tell both apart"),
            (&[1.0, 4.0, -2.0], "other bits, the same statistics", "within", "statistics have no order"),
            (&[1.0, -2.0, 4.1], "max 4 → 4.1", "max 4.09", "beyond"),
            (&[1.0, -2.1, 4.0], "min -2 → -2.1", "min -2.09", "beyond"),
            (&[1.1, -2.0, 4.0], "mean 1 → 1.03333", "mean 1.03", "beyond, between min and max"),
            (&[1.0, -2.0, f32::NAN], "nan 0 → 1", "nan 1 where 0 were recorded", "NaN"),
            (&[1.0, f32::INFINITY, 4.0], "inf 0 → 1", "inf 1 where 0", "infinity"),
            (&[1.0, -2.0], "f32[2] where f32[3] was recorded", "f32[2] where f32[3]", "another shape"),
        ] {
            for (limits, expected) in [(None, bitwise), (Some(torch()), tolerant)] {
                let state = of(&golden, &entry(values), limits.as_ref()).unwrap();
                let found = match &state {
                    State::Same => "same",
                    State::Within => "within",
                    State::Differs(reason) => reason,
                    other => panic!("{other:?}"),
                };
                assert!(found.contains(expected), "{reason}: {found}");
                assert_eq!(state.agrees(), ["same", "within"].contains(&expected), "{reason}");
            }
        }
    }

    /// Whatever elements do within their tolerance, the statistics stay within theirs; a thousand times that is seen.
    #[test]
    fn tensors_within_a_tolerance_agree() {
        let random = |i: usize, salt: u64| {
            let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (x.wrapping_mul(0x94d0_49bb_1331_11eb) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let limits = torch();
        for n in [1, 2, 17, 1000] {
            for salt in 0..20 {
                let reference: Vec<f32> = (0..n).map(|i| 8.0 * random(i, salt)).collect();
                let moved = |times: f32| -> Vec<f32> {
                    let bound = |r: f32| 1.2e-6 * r.abs() + 0.9e-5;
                    reference.iter().enumerate().map(|(i, &r)| r + times * bound(r) * (2.0 * random(i, salt + 99)).signum()).collect()
                };
                assert!(of(&entry(&reference), &entry(&moved(1.0)), Some(&limits)).unwrap().agrees(), "{n} {salt}");
                assert!(!of(&entry(&reference), &entry(&moved(1000.0)), Some(&limits)).unwrap().agrees(), "{n} {salt}");
            }
        }
    }

    /// A comparison rounds its tolerance, and |a - r|, to f32: what that passes is beyond the tolerance by less than that.
    #[test]
    fn what_rounding_to_f32_lets_pass_agrees() {
        // 0.3 and 0.1 are larger in f32, by 4e-8 and 1.5e-8 of them.
        let limits = Limits::elements(Tolerance::new(0.3, 0.1).unwrap(), "given");
        for (r, agrees) in [(1.0, true), (0.0, true), (1e-3, true)] {
            let largest = 0.3f32.mul_add(r, 0.1) + r;
            for (a, agrees) in [(largest, agrees), (largest * (1.0 + 1e-5), false)] {
                assert_eq!(of(&entry(&[r]), &entry(&[a]), Some(&limits)).unwrap().agrees(), agrees, "{a} for {r}");
            }
        }
    }

    /// Sums beyond f64 leave no mean of magnitudes to go by.
    #[test]
    fn means_of_vast_numbers_have_bounds() {
        let vast = |times: f64| {
            let bytes: Vec<u8> = [1e308, -1e308, 1e308].iter().flat_map(|x| (x * times).to_le_bytes()).collect();
            Entry::of(&TensorRef::from_host_bytes(&bytes, DType::F64, Layout::contiguous(&[3]).unwrap()).unwrap(), 0).unwrap()
        };
        let limits = Limits::elements(Tolerance::new(1e-6, 0.0).unwrap(), "given");
        assert_eq!((vast(1.0).mean.is_some(), vast(1.0).mean_abs), (true, None));
        assert_eq!(of(&vast(1.0), &vast(1.0 + 1e-10), Some(&limits)).unwrap(), State::Within);
        let State::Differs(reason) = of(&vast(1.0), &vast(1.0 + 1e-3), Some(&limits)).unwrap() else { panic!("it is beyond") };
        assert!(reason.contains("max 1.001") && reason.contains("e308 where 1e308 was recorded") && reason.len() < 500, "{reason}");
    }

    /// A statistic that only one side has, as sums of f64 elements may be beyond f64.
    #[test]
    fn statistics_that_one_side_lacks_differ() {
        let (golden, vast) = (entry(&[1.0, 2.0]), Entry { rms: None, hash: "0".repeat(16), ..entry(&[1.0, 2.0]) });
        for (golden, entry, words) in
            [(&golden, &vast, "rms none where 1.58114 was recorded"), (&vast, &golden, "rms 1.58114 where none was recorded")]
        {
            assert_eq!(of(golden, entry, Some(&torch())).unwrap(), State::Differs(words.to_owned()));
        }
    }

    #[test]
    fn tensors_are_matched_by_name() {
        let map = |names: &[(&str, f32)]| names.iter().map(|&(name, x)| (name.to_owned(), entry(&[x]))).collect::<BTreeMap<_, _>>();
        let recorded = Recorded { device: None, tensors: map(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]) };
        let states = compare(&recorded, &map(&[("a", 1.0), ("c", 4.0), ("d", 1.0)]), &|_, _| Ok(None)).unwrap();
        let words: Vec<(&str, bool)> = states.iter().map(|(name, state)| (name.as_str(), state.agrees())).collect();
        assert_eq!(words, [("a", true), ("b", false), ("c", false), ("d", false)]);
        assert_eq!((&states[1].1, &states[3].1), (&State::Missing, &State::New));
    }
}
