//! Runs of the fp16 study as cases: a [`Replay`] whose metrics are the numbers of the study's line.

use super::cases::{Values, WANTED_SEED};
use super::metrics::limited;
use super::record::MetricValue;
use crate::device::Device;
use crate::error::Result;
use crate::matrix_core::Arch;
use crate::suite::replay::{Configuration, Kernel, Outcome, Range, Replay, Shared, StudyMetrics, Validator, Variant, configurations};
use std::sync::OnceLock;

/// The names of the 14 numbers of a line, in its order.
pub(crate) const METRICS: [&str; 14] = [
    "elements",
    "exact",
    "one",
    "more",
    "unknown",
    "max_eps",
    "max_eps_val",
    "max_eps_kern",
    "max_abs",
    "ave_abs",
    "max_rel",
    "max_rel_old",
    "ave_rel",
    "rms",
];

/// The names of the study's configurations.
pub(crate) fn names() -> Vec<&'static str> {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| configurations().map(|c| c.name).collect()).iter().map(String::as_str).collect()
}

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Study {
    replay: Replay,
    products: u128,
}

impl Study {
    /// Reads the keys of a `[[study]]` table.
    pub(crate) fn new<'c>(of: &impl Fn(&str) -> Values<'c>) -> Result<Study> {
        let name = of("configuration");
        let configuration = match name.text("") {
            "" => return Err(name.error("`configuration` is missing")),
            text => Configuration::named(text).map_err(|e| name.error(e))?,
        };
        let products = configuration.param().map_err(|e| name.error(e))?.macs();
        let replay = Replay {
            configuration,
            range: of("range").parsed::<Range>("r0")?,
            seed: of("seed").number("1", WANTED_SEED)?,
            arch: of("arch").parsed::<Arch>("gfx90a")?,
            kernel: of("kernel").parsed::<Kernel>("xdlops")?,
            validator: of("validator").parsed::<Validator>("pv")?,
            variant: of("variant").parsed::<Variant>("first")?,
            device: Device::host(),
        };
        if ![Arch::Gfx908, Arch::Gfx90a].contains(&replay.arch) {
            return Err(of("arch").error(format!("arch cannot be {}: the study measured gfx908 and gfx90a", replay.arch)));
        }
        Ok(Study { replay, products })
    }

    /// See [`Case::cost`](super::Case::cost): a kernel and a validator.
    pub(crate) fn cost(&self) -> u128 {
        2 * self.products + 100_000
    }

    pub(crate) fn about(&self) -> String {
        let Replay { configuration, arch, kernel, validator, range, .. } = &self.replay;
        format!("{} on {arch}, {kernel} against {validator}, inputs from [{}, {}]", configuration.name, range.min, range.max)
    }

    /// What decides the run, for people.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let Replay { configuration, range, seed, arch, kernel, validator, variant, .. } = &self.replay;
        let flops = 2 * self.products;
        [
            ("configuration", configuration.name.clone()),
            ("FLOPs", format!("{flops}, padding included")),
            ("data", format!("from [{}, {}]", range.min, range.max)),
            ("seed", seed.to_string()),
            ("arch", arch.to_string()),
            ("kernel", kernel.to_string()),
            ("validator", validator.to_string()),
            ("variant", variant.to_string()),
        ]
        .map(|(label, text)| (label.to_owned(), text))
        .to_vec()
    }

    /// Computes the run.
    pub(crate) fn run(&self, device: &Device, shared: &Shared) -> Result<Outcome> {
        Replay { device: device.clone(), ..self.replay.clone() }.run_with(shared)
    }

    /// Whether both are computed from the same inputs: in one process, one after the other, the second takes less time.
    pub(crate) fn shares_with(&self, other: &Study) -> bool {
        let inputs = |study: &Study| (study.replay.range, study.replay.seed);
        inputs(self) == inputs(other) && self.replay.configuration == other.replay.configuration
    }
}

/// The numbers of a line; where float atomics add partial sums in any order, those of the nearest and the farthest order as well.
pub(crate) fn metrics(outcome: &Outcome, limits: &[(String, f64)]) -> Vec<MetricValue> {
    let mut out: Vec<MetricValue> =
        METRICS.iter().zip(values(&outcome.metrics)).map(|(name, value)| limited(name, value, limits)).collect();
    if let Some(orders) = &outcome.orders {
        for (which, metrics) in [("nearest", &orders.nearest), ("farthest", &orders.farthest)] {
            let named = METRICS.iter().zip(values(metrics)).skip(1);
            out.extend(named.map(|(name, value)| limited(&format!("{which}_{name}"), value, &[])));
        }
    }
    out
}

fn values(m: &StudyMetrics) -> [f64; 14] {
    let (epsilon, val, kern) = m.max_epsilon;
    let [epsilon, val, kern, max_abs] = [epsilon, val, kern, m.max_abs].map(f64::from);
    let counts = [m.elements, m.exact, m.one, m.more, m.unknown].map(|n| n as f64);
    let [elements, exact, one, more, unknown] = counts;
    [elements, exact, one, more, unknown, epsilon, val, kern, max_abs, m.mean_abs, m.max_rel, m.max_rel_old.0, m.mean_rel, m.rms]
}
