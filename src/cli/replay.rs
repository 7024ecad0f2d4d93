//! `hipverify replay`: computes what the fp16 study of 2022 measured on MI100 and MI200.

use super::{Outcome, screen};
use crate::device::Device;
use crate::matrix_core::Arch;
use crate::reference::Direction;
use crate::suite::replay::{Configuration, Kernel, Range, Replay, Validator, Variant, configurations};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::time::Instant;

/// The flags that make a configuration.
const SIZES: [&str; 18] = [
    "direction",
    "fil_layout",
    "in_layout",
    "out_layout",
    "batch",
    "groups",
    "in_channels",
    "out_channels",
    "in_h",
    "in_w",
    "fil_h",
    "fil_w",
    "padding_h",
    "padding_w",
    "stride_h",
    "stride_w",
    "dilation_h",
    "dilation_w",
];

/// The names of a line's numbers, around those that lines have since the second set of runs.
const HEADER_START: &str = "elements (exact one more unknown) max_eps (max_eps_val max_eps_kern) max_abs ave_abs max_rel max_rel_old";
const HEADER_END: &str = "ave_rel rms";

/// The flags of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify replay --list")]
pub(super) struct Args {
    /// List the study's configurations
    #[arg(long)]
    list: bool,
    /// Run the study's configurations whose order of accumulation is fixed (84 of 107 with matrix cores, all without): a
    /// line each, progress on standard error
    #[arg(long, conflicts_with_all = SIZES)]
    all: bool,
    /// One of the study's configurations (with --all: those whose name contains this); otherwise give the sizes below
    #[arg(long, conflicts_with_all = SIZES)]
    name: Option<String>,
    /// Inputs: r0 [-1, 1], r1 [-10, 10], r4 [1, 5], r5 [5, 10]
    #[arg(long, default_value = "r0")]
    range: Range,
    /// Least input, in place of the range's
    #[arg(long)]
    min: Option<f64>,
    /// Largest input, in place of the range's
    #[arg(long)]
    max: Option<f64>,
    /// Seed of the C library's generator
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The chip: gfx908 (MI100) or gfx90a (MI200)
    #[arg(long, default_value = "gfx90a")]
    arch: Arch,
    /// The kernel: xdlops (matrix cores) or nonxdlops
    #[arg(long, default_value = "xdlops")]
    kernel: Kernel,
    /// What it is held against: pv (CPU loops) or pv-with-gpu (the f32 kernel)
    #[arg(long, default_value = "pv")]
    validator: Validator,
    /// Version of the CPU validator: first and second (the study's runs), accumulate4, or later (section 3 of the study)
    #[arg(long, default_value = "first")]
    variant: Variant,
    /// Print the study's histograms as well
    #[arg(long)]
    histogram: bool,
    /// Where to compute: host, best, gpu or gpu:N; the line is the same everywhere
    #[arg(long, default_value = "host")]
    device: String,
    #[command(flatten, next_help_heading = "Sizes")]
    sizes: Sizes,
}

/// A configuration in flags; channels are totals over all groups.
#[derive(Debug, clap::Args)]
struct Sizes {
    /// fwd, bwd_data or bwd_weight
    #[arg(long)]
    direction: Option<Direction>,
    /// Layout of the filter, such as gkcyx, gkyxc, gyxck
    #[arg(long, default_value = "gkcyx")]
    fil_layout: String,
    /// Layout of the input, such as ngchw, nhwgc
    #[arg(long, default_value = "ngchw")]
    in_layout: String,
    /// Layout of the output, such as ngkhw, nhwgk
    #[arg(long, default_value = "ngkhw")]
    out_layout: String,
    /// Images
    #[arg(long)]
    batch: Option<usize>,
    /// Groups
    #[arg(long, default_value_t = 1)]
    groups: usize,
    /// Input channels
    #[arg(long)]
    in_channels: Option<usize>,
    /// Output channels
    #[arg(long)]
    out_channels: Option<usize>,
    /// Height of the input
    #[arg(long)]
    in_h: Option<usize>,
    /// Width of the input
    #[arg(long)]
    in_w: Option<usize>,
    /// Height of the filter
    #[arg(long)]
    fil_h: Option<usize>,
    /// Width of the filter
    #[arg(long)]
    fil_w: Option<usize>,
    /// Rows of zeros above and below
    #[arg(long, default_value_t = 0)]
    padding_h: usize,
    /// Columns of zeros left and right
    #[arg(long, default_value_t = 0)]
    padding_w: usize,
    /// Vertical stride
    #[arg(long, default_value_t = 1)]
    stride_h: usize,
    /// Horizontal stride
    #[arg(long, default_value_t = 1)]
    stride_w: usize,
    /// Vertical dilation
    #[arg(long, default_value_t = 1)]
    dilation_h: usize,
    /// Horizontal dilation
    #[arg(long, default_value_t = 1)]
    dilation_w: usize,
}

impl Sizes {
    fn configuration(&self) -> Result<Configuration> {
        let Some(direction) = self.direction else {
            bail!(
                "give --name (see --list), or a configuration: --direction, --batch, --in-channels, --out-channels, --in-h, --in-w, --fil-h, --fil-w"
            );
        };
        let needed =
            |value: Option<usize>, flag: &str| value.with_context(|| format!("{flag} is missing: a configuration without --name needs it"));
        Ok(Configuration {
            name: "flags".to_owned(),
            direction,
            layouts: [self.fil_layout.clone(), self.in_layout.clone(), self.out_layout.clone()],
            batch: needed(self.batch, "--batch")?,
            groups: self.groups,
            in_channels: needed(self.in_channels, "--in-channels")?,
            out_channels: needed(self.out_channels, "--out-channels")?,
            input: [needed(self.in_h, "--in-h")?, needed(self.in_w, "--in-w")?],
            filter: [needed(self.fil_h, "--fil-h")?, needed(self.fil_w, "--fil-w")?],
            padding: [self.padding_h, self.padding_w],
            stride: [self.stride_h, self.stride_w],
            dilation: [self.dilation_h, self.dilation_w],
        })
    }
}

/// A line for each configuration of the study.
fn list() -> Result<String> {
    let mut text = String::new();
    for c in configurations() {
        let order = if c.split() > 1 { "any order with xdlops" } else { "one order" };
        let gmacs = c.param()?.macs() as f64 / 1e9;
        writeln!(text, "{:<64} {:<10} {:<7} {gmacs:>8.3} G products  {order}", c.name, c.direction.name(), c.layouts[0])?;
    }
    Ok(text)
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        if self.list {
            screen::print(&list()?)?;
            return Ok(Outcome::Pass);
        }
        let device = Device::open(&self.device)?;
        if self.all {
            return self.run_all(&device);
        }
        let configuration = match &self.name {
            Some(name) => Configuration::named(name)?,
            None => self.sizes.configuration()?,
        };
        let outcome = self.replay(configuration, &device).run()?;
        let mut text = format!("{}\n", outcome.metrics);
        if let Some(orders) = &outcome.orders {
            writeln!(text, "float atomics add {} partial sums in any order; above they are added in ascending order", orders.parts)?;
            writeln!(text, "nearest   {}", orders.nearest)?;
            writeln!(text, "farthest  {}", orders.farthest)?;
        }
        if self.histogram {
            text += &outcome.metrics.histograms.table(outcome.metrics.elements).to_string();
        }
        screen::print(&text)?;
        Ok(Outcome::Pass)
    }

    fn replay(&self, configuration: Configuration, device: &Device) -> Replay {
        Replay {
            configuration,
            range: Range { min: self.min.unwrap_or(self.range.min), max: self.max.unwrap_or(self.range.max) },
            seed: self.seed,
            arch: self.arch,
            kernel: self.kernel,
            validator: self.validator,
            variant: self.variant,
            device: device.clone(),
        }
    }

    /// Every configuration with one order of accumulation, in the order of the list.
    fn run_all(&self, device: &Device) -> Result<Outcome> {
        let wanted = |c: &Configuration| self.name.as_ref().is_none_or(|part| c.name.contains(part.as_str()));
        let fixed = |c: &Configuration| self.kernel == Kernel::NonXdlops || c.split() == 1;
        let (chosen, open): (Vec<_>, Vec<_>) = configurations().filter(wanted).partition(fixed);
        if chosen.is_empty() {
            let part = self.name.as_deref().unwrap_or_default();
            bail!("no configuration with a fixed order has `{part}` in its name ({} have and no fixed order); see --list", open.len());
        }
        let (count, start) = (chosen.len(), Instant::now());
        let products = chosen.iter().map(|c| c.param().map(|p| p.macs())).sum::<crate::Result<u128>>()?;
        let title = format!("{} {} {} on {device}", self.arch, self.kernel, self.validator);
        screen::note(&format!("{count} configurations, {:.1} G products, {title}", products as f64 / 1e9));
        // Not on standard output: programs read every line there.
        let values = if self.variant == Variant::First { "" } else { " (max_rel_old_val max_rel_old_kern)" };
        screen::note(&format!("{:<64} {HEADER_START}{values} {HEADER_END}", "name"));
        let mut done = 0;
        for (i, configuration) in chosen.into_iter().enumerate() {
            let (name, begun) = (configuration.name.clone(), Instant::now());
            let work = configuration.param()?.macs();
            let outcome = self.replay(configuration, device).run().with_context(|| name.clone())?;
            if !screen::print_to_reader(&format!("{name:<64} {}\n", outcome.metrics))? {
                return Ok(Outcome::Pass);
            }
            done += work;
            let (own, all) = (begun.elapsed().as_secs_f64(), start.elapsed().as_secs_f64());
            let share = 100.0 * done as f64 / products.max(1) as f64;
            screen::note(&format!("[{:>3}/{count}] {share:>5.1} % {all:>7.1} s  {name}: {own:.2} s", i + 1));
        }
        if !open.is_empty() {
            let left = open.len();
            screen::note(&format!("left out: {left} configurations whose partial sums meet in any order; --name runs one"));
        }
        Ok(Outcome::Pass)
    }
}
