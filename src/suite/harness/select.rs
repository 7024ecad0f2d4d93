//! Which cases of a suite are run: filters, groups, and the share of one of several machines.

use super::cases::{Case, Suite};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;

/// What was chosen. Nothing chosen is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Parts of names, or whole names after `=`: a case that has one of them is chosen.
    pub filters: Vec<String>,
    /// Groups, or `AXIS=VALUE`: a case that is in one of them is chosen.
    pub groups: Vec<String>,
    /// One share of what filters and groups leave.
    pub shard: Option<Shard>,
}

/// One share of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Selection {
    /// The cases that are chosen, in the order of the suite.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a filter or a group has no case at all, or no case is in both: nothing that was run is no pass. A share of fewer cases than
    /// there are shares may be empty.
    pub fn of<'a>(&self, suite: &'a Suite) -> Result<Vec<&'a Case>> {
        let nothing = |what, value: &str, known: String| {
            let limit = format!("no case of {} has it; {known}", suite.name);
            Err(Error::InvalidArgument { what, value: value.to_owned(), limit })
        };
        if let Some(filter) = self.filters.iter().find(|f| !suite.cases.iter().any(|case| matches(case, f))) {
            return nothing("filter", filter, format!("`hipverify suite list {}` has their names", suite.source));
        }
        if let Some(group) = self.groups.iter().find(|g| !suite.cases.iter().any(|case| belongs(case, g))) {
            return nothing("group", group, groups(suite));
        }
        let chosen = |case: &&Case| {
            (self.filters.is_empty() || self.filters.iter().any(|f| matches(case, f)))
                && (self.groups.is_empty() || self.groups.iter().any(|g| belongs(case, g)))
        };
        let cases: Vec<&Case> = suite.cases.iter().filter(chosen).collect();
        if cases.is_empty() {
            let all = Selection { shard: None, ..self.clone() };
            let limit = format!("no case of {} is both in a filter and in a group of it", suite.name);
            return Err(Error::InvalidArgument { what: "selection", value: all.to_string(), limit });
        }
        Ok(match self.shard {
            Some(shard) => shard.of(cases),
            None => cases,
        })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = self.filters.iter().map(|filter| format!("--filter {filter}"));
        let groups = self.groups.iter().map(|group| format!("--group {group}"));
        let shard = self.shard.iter().map(|shard| format!("--shard {shard}"));
        f.write_str(&filters.chain(groups).chain(shard).collect::<Vec<_>>().join(" "))
    }
}

fn matches(case: &Case, filter: &str) -> bool {
    filter.strip_prefix('=').map_or_else(|| case.name.contains(filter), |name| case.name == name)
}

fn belongs(case: &Case, group: &str) -> bool {
    let axis = || group.split_once('=').is_some_and(|(key, value)| case.axes.iter().any(|(k, v)| k == key && v == value));
    case.groups.iter().any(|g| g == group) || axis()
}

/// What `--group` takes: the groups of a suite, and the names of its axes.
fn groups(suite: &Suite) -> String {
    let groups: BTreeSet<&str> = suite.cases.iter().flat_map(|case| &case.groups).map(String::as_str).collect();
    let axes: BTreeSet<&str> = suite.cases.iter().flat_map(|case| &case.axes).map(|(axis, _)| axis.as_str()).collect();
    let listed = |names: BTreeSet<&str>| match names.is_empty() {
        true => "none".to_owned(),
        false => names.into_iter().collect::<Vec<_>>().join(" "),
    };
    format!("its groups: {}; its axes, as AXIS=VALUE: {}", listed(groups), listed(axes))
}

/// Variables by which schedulers tell a process its number and how many there are, and from which number they count. Launchers of MPI, which may run inside a
/// step of Slurm, come first.
const SCHEDULERS: [(&str, &str, usize); 6] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0),
    ("PMI_RANK", "PMI_SIZE", 0),
    ("PMIX_RANK", "PMIX_SIZE", 0),
    ("SLURM_PROCID", "SLURM_NTASKS", 0),
    ("CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    // A GitHub workflow puts strategy.job-index and strategy.job-total here: no variable has them.
    ("JOB_INDEX", "JOB_TOTAL", 0),
];

/// How many of them are launchers of MPI.
const MPI: usize = 3;

impl Shard {
    /// Share `index`, counted from 1, of `count`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no such share.
    pub fn new(index: usize, count: usize) -> Result<Shard> {
        if (1..=count).contains(&index) {
            return Ok(Shard { index, count });
        }
        Err(Error::InvalidArgument {
            what: "shard",
            value: format!("{index}/{count}"),
            limit: format!("I/N with I from 1 to N; N is {count}"),
        })
    }

    /// The share of this process, by the variables of its scheduler; `variable` reads one. `SLURM_ARRAY_TASK_ID` counts where no step was started.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are none, or they make no share.
    pub fn auto(variable: impl Fn(&str) -> Option<String>) -> Result<Shard> {
        let number = |name: &'static str| -> Result<Option<usize>> {
            let Some(text) = variable(name) else { return Ok(None) };
            let limit = || "a whole number".to_owned();
            text.parse().map(Some).map_err(|_| Error::InvalidArgument { what: name, value: text.clone(), limit: limit() })
        };
        let found = |launchers: &[(&'static str, &'static str, usize)]| -> Result<Option<(usize, usize)>> {
            for &(rank, size, first) in launchers {
                if let (Some(rank), Some(size)) = (number(rank)?, number(size)?) {
                    return Ok(Some(((rank + 1).saturating_sub(first), size)));
                }
            }
            Ok(None)
        };
        // One process, as Slurm's own launcher may tell it by these variables too, is no division: the array's is.
        if let Some((index, count)) = found(&SCHEDULERS[..MPI])?.filter(|(_, count)| *count > 1) {
            return Shard::new(index, count);
        }
        // An array of jobs, each with one task.
        let array = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_MIN")?, number("SLURM_ARRAY_TASK_COUNT")?);
        if let (Some(id), Some(first), Some(count)) = array
            && number("SLURM_NTASKS")?.unwrap_or(1) == 1
        {
            return Shard::new((id + 1).saturating_sub(first), count);
        }
        if let Some((index, count)) = found(&SCHEDULERS)? {
            return Shard::new(index, count);
        }
        let names = SCHEDULERS.map(|(rank, size, _)| format!("{rank} {size}")).join(", ");
        Err(Error::InvalidArgument { what: "shard", value: "auto".to_owned(), limit: format!("none of these variables is set: {names}") })
    }

    /// Reads `2/8`.
    pub(crate) fn numbers(text: &str) -> Result<Shard> {
        let wrong =
            || Error::InvalidArgument { what: "shard", value: text.to_owned(), limit: "it must be I/N, such as 2/8, or auto".to_owned() };
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        Shard::new(index.trim().parse().map_err(|_| wrong())?, count.trim().parse().map_err(|_| wrong())?)
    }

    /// How many shares there are.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Its cases: the costliest first, each to the share that has least so far, so that shares end at about the same time. Cases that share work stay together.
    fn of(self, cases: Vec<&Case>) -> Vec<&Case> {
        let units: Vec<&[&Case]> = cases.chunk_by(|a, b| a.shares_with(b)).collect();
        let cost = |unit: &[&Case]| unit.iter().map(|case| case.cost()).sum::<u128>();
        let mut by_cost: Vec<usize> = (0..units.len()).collect();
        by_cost.sort_by_key(|&i| (std::cmp::Reverse(cost(units[i])), i));
        let mut loads = vec![0u128; self.count];
        let mut mine = Vec::new();
        for i in by_cost {
            let Some(least) = (0..self.count).min_by_key(|&share| (loads[share], share)) else { break };
            loads[least] += cost(units[i]);
            if least + 1 == self.index {
                mine.push(i);
            }
        }
        mine.sort_unstable();
        mine.into_iter().flat_map(|i| units[i]).copied().collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl std::str::FromStr for Shard {
    type Err = Error;

    /// Reads `2/8`, or `auto`: see [`Shard::auto`].
    fn from_str(text: &str) -> Result<Shard> {
        if text == "auto" { Shard::auto(|name| std::env::var(name).ok()) } else { Shard::numbers(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernels, SuiteFile};
    use super::*;

    const SUITE: &str = "[[gemm]]\ngroups = ['nightly']\nsize = ['4x4x4', '64x64x64', '8x8x8', '128x64x64']\ntype = ['f16', 'f32']\n\
        [[conv]]\nsize = '1 1 1 1 1 2 4 1 1 0 0'\nseed = [1, 2, 3]\n";

    fn suite() -> Suite {
        Suite::new(&SuiteFile::parse("s.toml", SUITE).unwrap(), "s.toml", Kernels::default()).unwrap()
    }

    fn chosen(suite: &Suite, filters: &[&str], groups: &[&str]) -> Result<Vec<String>> {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let selection = Selection { filters: texts(filters), groups: texts(groups), shard: None };
        Ok(selection.of(suite)?.iter().map(|case| case.name.clone()).collect())
    }

    #[test]
    fn filters_and_groups_choose_cases() {
        let suite = suite();
        for (filters, groups, count, reason) in [
            (vec![], vec![], 11, "everything"),
            (vec!["conv"], vec![], 3, "a part of the name"),
            (vec!["=gemm/4x4x4/f16"], vec![], 1, "the whole name: 64x64x64 has this in its own"),
            (vec!["conv/1", "8x8x8"], vec![], 3, "either"),
            (vec![], vec!["nightly"], 8, "a group"),
            (vec![], vec!["type=f32"], 4, "a value of an axis"),
            (vec!["64x64x64"], vec!["type=f32"], 1, "both; `128x64x64` has no such part"),
        ] {
            assert_eq!(chosen(&suite, &filters, &groups).unwrap().len(), count, "{reason}");
        }
        for (filters, groups, words) in [
            (vec!["=gemm"], vec![], "filter cannot be =gemm: no case of s has it; `hipverify suite list s.toml` has their names"),
            (
                vec![],
                vec!["daily"],
                "group cannot be daily: no case of s has it; its groups: nightly; its axes, as AXIS=VALUE: seed size type",
            ),
        ] {
            assert!(chosen(&suite, &filters, &groups).unwrap_err().to_string().contains(words), "{words}");
        }
        for (shard, words) in
            [(None, "selection cannot be --filter conv --group nightly: no case of s"), (Shard::new(2, 2).ok(), "no case of s")]
        {
            let selection = Selection { filters: vec!["conv".to_owned()], groups: vec!["nightly".to_owned()], shard };
            let error = selection.of(&suite).unwrap_err().to_string();
            assert!(error.contains(words), "nothing in common, whatever the share: {error}");
        }
        let share = Selection { filters: vec!["=gemm/4x4x4/f16".to_owned()], shard: Shard::new(2, 2).ok(), ..Selection::default() };
        assert!(share.of(&suite).unwrap().is_empty(), "one case, of which the second share has none");
    }

    #[test]
    fn shards_are_disjoint_complete_and_balanced() {
        let suite = suite();
        for count in [1, 2, 3, 7, 20] {
            let shards: Vec<Vec<&Case>> = (1..=count).map(|i| Shard::new(i, count).unwrap().of(suite.cases.iter().collect())).collect();
            let mut names: Vec<&str> = shards.iter().flatten().map(|case| case.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!((names.len(), shards.iter().map(Vec::len).sum::<usize>()), (11, 11), "{count} shards");
        }
        let cost = |i| Shard::new(i, 2).unwrap().of(suite.cases.iter().collect()).iter().map(|case| case.cost()).sum::<u128>();
        assert!(cost(1).abs_diff(cost(2)) < cost(1) / 4, "{} {}", cost(1), cost(2));
    }

    /// Runs of the study that have inputs and results in common are in one share, next to each other.
    #[test]
    fn cases_that_share_work_stay_together() {
        let text = "[[study]]\nconfiguration = ['conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16', 'conv2d_host_validation_f16_bwd_CHECK_BWD_WEIGHT1']\n\
            range = ['r0', 'r1', 'r4']\narch = ['gfx908', 'gfx90a']\nvalidator = ['pv', 'pv-with-gpu']\n";
        let suite = Suite::new(&SuiteFile::parse("s.toml", text).unwrap(), "s.toml", Kernels::default()).unwrap();
        let shards: Vec<Vec<&Case>> = (1..=3).map(|i| Shard::new(i, 3).unwrap().of(suite.cases.iter().collect())).collect();
        for cases in &shards {
            assert_eq!(cases.len(), 8, "balanced, as all runs of a configuration cost the same");
            assert!(cases.chunk_by(|a, b| a.shares_with(b)).all(|unit| unit.len() == 4), "{cases:?}");
        }
    }

    #[test]
    fn schedulers_tell_the_share() {
        for (variables, found) in [
            (vec![("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4")], Ok("4/4")),
            (vec![("SLURM_ARRAY_TASK_ID", "5"), ("SLURM_ARRAY_TASK_MIN", "4"), ("SLURM_ARRAY_TASK_COUNT", "3")], Ok("2/3")),
            (vec![("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")], Ok("1/2")),
            (vec![("PMI_RANK", "1"), ("PMI_SIZE", "2")], Ok("2/2")),
            (vec![("PMIX_RANK", "1"), ("PMIX_SIZE", "2")], Ok("2/2")),
            // mpirun inside sbatch: Slurm's number is that of the script, 0 for every process.
            (vec![("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")], Ok("3/4")),
            (vec![("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")], Ok("2/4")),
            (vec![("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("PMIX_RANK", "3"), ("PMIX_SIZE", "4")], Ok("4/4")),
            (vec![("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")], Ok("1/1")),
            // mpirun, and a step of srun, inside an array of jobs with one task each.
            (
                vec![
                    ("SLURM_ARRAY_TASK_ID", "5"),
                    ("SLURM_ARRAY_TASK_MIN", "4"),
                    ("SLURM_ARRAY_TASK_COUNT", "3"),
                    ("OMPI_COMM_WORLD_RANK", "3"),
                    ("OMPI_COMM_WORLD_SIZE", "4"),
                ],
                Ok("4/4"),
            ),
            (
                vec![
                    ("SLURM_ARRAY_TASK_ID", "5"),
                    ("SLURM_ARRAY_TASK_MIN", "4"),
                    ("SLURM_ARRAY_TASK_COUNT", "3"),
                    ("PMI_RANK", "0"),
                    ("PMI_SIZE", "1"),
                ],
                Ok("2/3"),
            ),
            (vec![("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "5")], Ok("1/5")),
            (vec![("JOB_INDEX", "0"), ("JOB_TOTAL", "5")], Ok("1/5")),
            (vec![("PMI_RANK", "1")], Err("none of these variables")),
            (vec![("PMI_RANK", "2"), ("PMI_SIZE", "2")], Err("3/2")),
            (vec![("PMI_RANK", "x"), ("PMI_SIZE", "2")], Err("PMI_RANK cannot be x")),
        ] {
            let shard = Shard::auto(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()));
            match (shard, found) {
                (Ok(shard), Ok(text)) => assert_eq!(shard.to_string(), text),
                (Err(e), Err(words)) => assert!(e.to_string().contains(words), "{e}"),
                (shard, found) => panic!("{shard:?} {found:?}"),
            }
        }
        for text in ["0/2", "3/2", "1", "a/b", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
