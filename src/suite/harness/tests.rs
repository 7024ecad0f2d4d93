//! Suites from their text to their results: files that are refused, cases and their names, kernels that misbehave.

mod checks;
mod closures;
mod scales;

use super::record::{CaseOutcome, FindingKind, Side};
use super::{Kernels, Launch, Suite, SuiteFile};
use crate::device::Device;
use crate::error::Result;
use std::sync::atomic::{AtomicUsize, Ordering};

fn suite(text: &str, kernels: Kernels) -> Result<Suite> {
    Suite::new(&SuiteFile::parse("s.toml", text)?, "s.toml", kernels)
}

#[test]
fn bad_files_are_refused_with_their_line() {
    // Neither alone is too large: 10^6 and 1.
    let list = format!("{:?}", (0..1000).collect::<Vec<_>>());
    let two_tables =
        format!("[[gemm]]\nsize = '4x4x4'\nseed = {list}\n[[gemm]]\nname = 'b'\nsize = '4x4x4'\ndata = {list}\nseed = {list}\n");
    for (text, words) in [
        ("[[gemm]]\nsize = '4x4x4'\ntyp = 'f16'", "s.toml:3: unknown key `typ`; did you mean `type`?"),
        ("[[gem]]\nsize = '4x4x4'", "s.toml:1: unknown key `gem`; did you mean `gemm`?"),
        ("[defaults]\nsede = 1\n[[gemm]]\nsize = '4x4x4'", "s.toml:2: unknown key `sede`; did you mean `seed`?"),
        ("name = 'x'", "has no table of cases"),
        ("[[gemm]]\nsize = [\n", "s.toml:2"),
        ("[gemm]\nsize = '4x4x4'", "s.toml:1: cases stand in tables of their own: [[gemm]]"),
        ("[[gemm]]\nsize = { m = 1 }", "s.toml:2: `size` takes a text, a number"),
        ("[[gemm]]\nsize = []", "s.toml:2: `size` is an empty list"),
        ("[[gemm]]\ngroups = 'nightly'\nsize = '4x4x4'", "s.toml:2: `groups` takes a list of texts"),
        ("[[gemm]]\nsize = '4x4x4'\n[[gemm]]\nsize = '4x4x4'", "s.toml:3: a table named `gemm` is there already, at line 1"),
        ("[[gemm]]\ntype = 'f16'", "s.toml:1: case `gemm`: `size` is missing"),
        ("[[gemm]]\nsize = ['4x4x4', '4x0x4']", "s.toml:2: case `gemm/4x0x4`: size of a gemm cannot be 4x0x4"),
        ("[[gemm]]\nsize = '4294967296x1x4294967296'", "each at least 1, with at most 1152921504606846975 elements a tensor"),
        ("[[gemm]]\nsize = '4x4x4'\nalpha = 'x'", "s.toml:3: case `gemm`: `alpha` = x: a number is wanted"),
        ("[[gemm]]\nsize = '4x4x4'\nseed = -1", "s.toml:3: case `gemm`: `seed` = -1: a whole number from 0 to 2^64-1 is wanted"),
        ("[[gemm]]\nsize = '4x4x4'\nbeta = [1, inf]", "s.toml:3: case `gemm/inf`: beta cannot be inf: it must be a finite number"),
        ("[[gemm]]\nsize = '4x4x4'\nbias = 'yes'", "s.toml:3: case `gemm`: `bias` = yes: "),
        ("[[gemm]]\nsize = '4x4x4'\nactivation = 'gelu'", "activation cannot be gelu: it must be none or relu"),
        (
            "[[gemm]]\nsize = '4x4x4'\nbeta = 2\nbias = true\ndata = 'uniform:0,1 | uniform:0,1 | uniform:0,1'",
            "data has 3 generators; it takes one, or one for each of the 4 inputs",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = ['c']\n[[gemm]]\nsize = '4x1x1'\nkernel = 'k'",
            "`arguments`: `c`: this problem has no number `c`",
        ),
        ("[[conv]]\nsize = '1 1 1 1 1 2 4 1 1 0 0'\nbeta = 1", "s.toml:3: unknown key `beta`"),
        ("[[gemm]]\nsize = '4x4x4'\nlayout = 'nx'", "it must be nn, nt, tn or tt"),
        ("[[gemm]]\nsize = ['4x4x4', '4x4x4']", "two cases are named `gemm/4x4x4`"),
        ("[[gemm]]\nsize = '4x4x4'\ntype = 'f17'", "s.toml:3: case `gemm`: `type` = f17: unknown dtype"),
        ("[[gemm]]\nsize = '4x4x4'\nkernel = 'mine'", "s.toml:3: case `gemm`: kernel cannot be mine"),
        ("[[gemm]]\nsize = '4x4x4'\nkernel = 'gfx908'\ntype = 'f64'", "the format f64 is not supported by the models of gfx908"),
        ("[[gemm]]\nsize = '4x4x4'\ntype = 'f64'\nrule = 'rocmlir'\nlimits = { rsm = 1 }", "unknown metric `rsm`; did you mean `rms`?"),
        ("[[gemm]]\nsize = '4x4x4'\nlimits = { rms = nan }", "s.toml:3: the limit of `rms` is NaN; it must be 0 or larger"),
        ("[[gemm]]\nsize = '4x4x4'\nlimits = { rms = 1, max_abs = -1 }", "the limit of `max_abs` is -1"),
        ("[[gemm]]\nsize = '4x4x4'\ntype = 'f6e2m3'\nrule = 'miopen'", "s.toml:4: case `gemm`: "),
        ("[[gemm]]\nsize = '4x4x4'\nrule = 'near'", "rule cannot be near"),
        (
            "[[gemm]]\nsize = '4x4x4'\nrule = 'rmss=1e-5'",
            "s.toml:3: case `gemm`: `rule` = rmss=1e-5: rule cannot be rmss=1e-5: unknown key `rmss`; did you",
        ),
        ("[[gemm]]\nsize = '4x4x4'\nrule = { rms = -1 }", "s.toml:3: case `gemm`: RMS threshold cannot be -1"),
        ("[[gemm]]\nsize = '4x4x4'\nrule = {}", "s.toml:3: `rule` takes a text, a table of keys with values, or a list of them"),
        ("[[gemm]]\nsize = '4x4x4'\nrule = { rms = { a = 1 } }", "s.toml:3: `rule` takes a text, a table"),
        ("[[gemm]]\nsize = '4x4x4'\nrule = ['exact', { profile = 'ck', rms = 1 }]", "a profile cannot be used with metrics"),
        ("[[gemm]]\nsize = '4x4x4'\ndata = 'gauss:0,1'", "unknown pattern `gauss`"),
        ("[[gemm]]\nsize = '4x4x4'\nexpected = 'maybe'", "expected cannot be maybe"),
        ("[[gemm]]\nsize = '4x4x4'\ntimeout = 0", "timeout cannot be 0"),
        (
            "[[gemm]]\nsize = '4x4x4'\ntimeout = 1e300",
            "s.toml:3: case `gemm`: timeout cannot be 1e300: it must be seconds, more than 0 and less than 2^64",
        ),
        (
            "[[gemm]]\nsize = '4x4x4'\ndata = ['uniform:-1,1', 'uniform:nan,1']",
            "s.toml:3: case `gemm/uniform:nan,1`: data of `a`: uniform:nan,1: min cannot be NaN: it must be finite",
        ),
        ("[[gemm]]\nsize = '4x4x4'\ndata = 'sin | uniform:1,-1'", "data of `b`: uniform:1,-1: range cannot be [1, -1]"),
        (
            "[[gemm]]\nsize = '4x4x4'\ntype = 'i8'\ndata = 'uniform:0,1e3'",
            "s.toml:4: case `gemm`: data of `a`: uniform:0,1e3: max cannot be 1000",
        ),
        ("[[gemm]]\nsize = '4x4x6'\ndata = 'sin/sparse24'", "s.toml:3: case `gemm`: data of `a`: sin/sparse24: last dimension cannot be 6"),
        ("[kernels.native]\ncommand = ['x']\n", "s.toml:1: [kernels.native]: `native` is a kernel already"),
        ("[[conv]]\nsize = '1 1 1 1 1 9 4 1 1 0 0'", "s.toml:2: case `conv`: `size` = 1 1 1 1 1 9 4 1 1 0 0: window extent"),
        ("[[conv]]\nsize = '1 1 1 1 1 2 4 1 1 0 0'\nlayout = 'nhwgc'", "layout takes three"),
        ("[[conv]]\nsize = '1 1 1 1 1 2 4 1 1 0 0'\ndirection = 'bwd'", "fwd, bwd_data or bwd_weight"),
        ("[[study]]\nrange = 'r0'", "`configuration` is missing"),
        ("[[study]]\nconfiguration = 'RESNET'", "look like it"),
        ("[[study]]\nconfiguration = 'all'\narch = 'gfx942'", "the study measured gfx908 and gfx90a"),
        ("[kernels.mine]\n[[gemm]]\nsize = '4x4x4'", "[kernels.mine] has no `command`, `source` or `code_object`"),
        ("[kernels.k]\nsource = 'k.hip'\ncommand = ['x']\n", "s.toml:3: [kernels.k] has `source` and `command`; it takes one of them"),
        ("[kernels.k]\ncommand = ['x']\ngrid = 1\n", "s.toml:3: [kernels.k] is a program, which takes no `grid`"),
        ("[kernels.k]\ncode_object = 'k.co'\noptions = ['-O1']\n", "s.toml:3: [kernels.k] is a code object, which takes no `options`"),
        ("[kernels.k]\ncode_object = {}\n", "s.toml:2: `code_object` takes a path, or a table of paths by architecture"),
        ("[kernels.k]\ncode_object = { gfx90a = 1 }\n", "`code_object` takes a path"),
        ("[kernels.k]\nsource = 'k.hip'\ngrid = 1\nblock = 64\n", "s.toml:1: [kernels.k] has no `function`"),
        ("[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\nblock = 64\n", "s.toml:1: [kernels.k] has no `grid`"),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = [1, 2, 3, 4]\nblock = 64\n",
            "s.toml:4: [kernels.k]: `grid`: has 4 extents",
        ),
        ("[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 'ceil(m'\nblock = 64\n", "s.toml:4: [kernels.k]: `grid`: `ceil(m` is no"),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = ['f3:1']\n",
            "s.toml:6: [kernels.k]: `arguments`: `f3:1`",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 'm/16'\nblock = 64\n[[gemm]]\nsize = ['16x1x1', '4x1x1']\nkernel = 'k'",
            "s.toml:8: case `gemm/4x1x1`: [kernels.k]: `grid`: `m/16` is 1/4, not a whole number",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = ['input']\n[[gemm]]\nsize = '4x1x1'\nkernel = 'k'",
            "`arguments`: `input`: this problem has no number `input`",
        ),
        (
            "[kernels.p]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'\ntype = 'tf32'\nkernel = 'p'",
            "s.toml:5: case `gemm`: the format tf32 is not supported by",
        ),
        (
            "[kernels.p]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'\noutput = 'i4'\nkernel = 'p'",
            "s.toml:5: case `gemm`: the format i4 is not supported by",
        ),
        ("[kernels.k]\ncommand = ['x']\ninitial = 'zero'\n", "s.toml:3: [kernels.k] is a program, which takes no `initial`"),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\ninitial = 'nan'\n",
            "s.toml:6: [kernels.k]: `initial`: `nan` is neither poison nor zero",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\nworkspace_bytes = 'm*'\n",
            "s.toml:6: [kernels.k]: `workspace_bytes`: `m*` is no expression",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\nworkspace_bytes = 64\n",
            "s.toml:6: [kernels.k]: `workspace_bytes`: no argument is `workspace`",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = ['workspace']\n",
            "s.toml:6: [kernels.k]: `arguments`: `workspace` needs the key `workspace_bytes`",
        ),
        ("[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\nlaunches = []\n", "s.toml:6: `launches` is an empty list"),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\nlaunches = [1]\n",
            "s.toml:6: `launches` takes a list of tables: several launches",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\nlaunches = [{ grid = 1 }]\n",
            "s.toml:3: [kernels.k] has `launches`, so `function` belongs into their tables",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nlaunches = [{ function = 'f', grid = 1, block = 1 }, { grid = 1, block = 1 }]\n",
            "s.toml:3: [kernels.k] launch 2 has no `function`",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nlaunches = [{ function = 'f', grid = 1, block = 'x y' }]\n",
            "s.toml:3: [kernels.k] launch 1: `block`: `x y` is no expression",
        ),
        (
            "[kernels.k]\nsource = 'k.hip'\nlaunches = [{ function = 'f', grids = 1 }]\n",
            "s.toml:3: unknown key `grids`; did you mean `grid`?",
        ),
        ("[kernels.p]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x3'\ntype = 'f6e2m3'\noutput = 'f32'\nkernel = 'p'", ""),
        (
            "[kernels.p]\ncommand = ['x']\n[[gemm]]\nsize = '3x4x5'\ntype = 'f4e2m1'\noutput = 'f32'\nkernel = 'p'",
            "s.toml:5: case `gemm`: a tensor of 15 elements of f4e2m1, which do not fill whole bytes, is not supported by",
        ),
        (
            "[kernels.p]\ncommand = ['x']\n[[gemm]]\nsize = '3x5x4'\noutput = 'f6e3m2'\nkernel = 'p'",
            "s.toml:5: case `gemm`: a tensor of 15 elements of f6e3m2, which do not fill whole bytes, is not supported by",
        ),
        ("[kernels.mine]\ncomand = ['x']\n[[gemm]]\nsize = '4x4x4'", "s.toml:2: unknown key `comand`; did you mean `command`?"),
        ("[[gemm]]\nsize = '4x4x4'\nseed = [1,2,3,4,5,6,7,8,9,10]\n", ""),
        ("[[gemm]]\nsize = '4x4x4'\ntype = ['f64', 'i32', 'u32', 'bool', 'f8e8m0']", ""),
        (
            "[[gemm]]\nsize = '4x4x4'\ntype = 'i64'",
            "s.toml:1: case `gemm`: operands of a reference with accumulation f64: expected dtype any format but i64",
        ),
        (
            "[[gemm]]\nsize = '4x4x4'\ntype = 'f64'\nkernel = 'fma'",
            "s.toml:4: case `gemm`: operands of a reference with accumulation f32-fma",
        ),
        (
            "[kernels.own]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'\ntype = 'f64'\nkernel = 'own'\nreference = 'f32'",
            "s.toml:7: case `gemm`: operands of a reference with accumulation f32",
        ),
        (
            "[[gemm]]\nsize = '4x4x4'\nkernel = 'gfx90a:bf16'",
            "s.toml:3: case `gemm`: operands of a reference with accumulation gfx90a:bf16: expected dtype bf16",
        ),
        (
            "[kernels.fma]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'",
            "s.toml:1: [kernels.fma]: `fma` is a kernel already, which comes with hipverify; give it another name",
        ),
        ("[kernels.gfx90a]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'", "s.toml:1: [kernels.gfx90a]: "),
        ("[kernels.\"f32@gpu:1\"]\ncommand = ['x']\n[[gemm]]\nsize = '4x4x4'", "s.toml:1: [kernels.f32@gpu:1]: "),
        (two_tables.as_str(), "s.toml:4: with this table the suite has more than 1000000 cases"),
    ] {
        match suite(text, Kernels::default()) {
            Ok(_) => assert!(words.is_empty(), "{text}: accepted"),
            Err(e) => assert!(!words.is_empty() && e.to_string().contains(words), "{text}: {e}"),
        }
    }
}

#[test]
fn cases_are_all_combinations_with_names_that_stay() {
    let text = "[defaults]\nseed = [1, 2]\nrange = 'r1'\n[[gemm]]\nname = 'g'\ntype = ['f16', 'bf16']\nsize = '4x4x4'\nrule = ['exact']\n\
        [[conv]]\nsize = ['1 1 1 1 1 2 4 1 1 0 0']\nseed = 7\n";
    let suite = suite(text, Kernels::default()).unwrap();
    let names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
    let expected = ["g/f16/exact/1", "g/f16/exact/2", "g/bf16/exact/1", "g/bf16/exact/2", "conv/1_1_1_1_1_2_4_1_1_0_0"];
    assert_eq!(names, expected, "a table's own axes, then those of [defaults]; a list of one is an axis, a single value is none");
    let command = suite.command(&suite.cases[4]);
    assert_eq!(command, "hipverify suite run s.toml --filter =conv/1_1_1_1_1_2_4_1_1_0_0");
}

/// Texts and tables say the same; the table's keys keep their order in names.
#[test]
fn rules_are_an_axis_of_texts_and_tables() {
    let text =
        "[[gemm]]\nsize = '4x4x4'\nrule = ['rms=1e-5', { rms = 1e-5, atol = 1 }, { profile = 'hipdnn', range = [0, 1.5] }, 'exact']\n";
    let mut file = SuiteFile::parse("s.toml", text).unwrap();
    let names = |suite: Suite| suite.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>();
    let expected = ["gemm/rms=1e-5", "gemm/rms=1e-5,atol=1", "gemm/profile=hipdnn,range=[0,1.5]", "gemm/exact"];
    assert_eq!(names(Suite::new(&file, "s.toml", Kernels::default()).unwrap()), expected);
    file.set("gemm.rule=relative_l1=1e-3,allowed_count=4").unwrap();
    assert_eq!(names(Suite::new(&file, "s.toml", Kernels::default()).unwrap()), ["gemm/relative_l1=1e-3,allowed_count=4"]);
}

#[test]
fn words_of_commands_are_quoted_for_a_shell() {
    for (word, text) in [("=a/b-c", "=a/b-c"), ("", "''"), ("a b", "'a b'"), ("*", "'*'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")] {
        assert_eq!(super::cases::quoted(word), text);
    }
}

#[test]
fn fingerprints_tell_suites_apart_and_nothing_else() {
    let of = |text: &str| suite(text, Kernels::default()).unwrap().fingerprint;
    let base = "[[gemm]]\nsize = '4x4x4'\nlimits = { rms = 1 }";
    assert_eq!(of(base), of("# a comment\ndescription = 'x'\n[[gemm]]\nsize = \"4x4x4\"\n\nlimits = { rms = 1.0 }"));
    for other in [
        "[[gemm]]\nsize = '4x4x5'\nlimits = { rms = 1 }",
        "[[gemm]]\nsize = '4x4x4'\nlimits = { rms = 2 }",
        "[[gemm]]\nsize = '4x4x4'\nlimits = { rms = 1 }\nseed = 2",
        "[[gemm]]\nsize = '4x4x4'\nlimits = { rms = 1 }\nexpected = 'any'",
        "[[gemm]]\nsize = ['4x4x4']\nlimits = { rms = 1 }",
    ] {
        assert_ne!(of(base), of(other), "{other}");
    }
    let own = "[[gemm]]\nsize = '16x4x4'\nkernel = 'k'\n[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 'ceil(m/16)'\nblock = 64\n";
    assert_eq!(of(own), of(&own.replace("= 64", "= '64'")));
    for (from, to) in [
        ("ceil", "floor"),
        ("64", "65"),
        ("'f'", "'g'"),
        ("k.hip", "l.hip"),
        ("block", "arguments = ['a']\nblock"),
        ("block", "initial = 'zero'\nblock"),
    ] {
        assert_ne!(of(own), of(&own.replace(from, to)), "{to}");
    }
}

#[test]
fn included_files_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("main.toml", "name = 'all'\ninclude = ['common.toml']\n[[gemm]]\nname = 'mine'\nsize = '4x4x4'\n");
    put("common.toml", "name = 'common'\ndescription = 'what all share'\n[defaults]\ntype = 'f32'\n[[gemm]]\nsize = '4x4x4'\n");
    put("loop.toml", "include = ['loop.toml']\n");
    put("lost.toml", "include = ['nowhere.toml']\n");
    let open = |name: &str| SuiteFile::open(&folder.path().join(name));
    let file = open("main.toml").unwrap();
    assert_eq!((file.name.as_str(), file.tables[0].name.as_str(), file.tables[1].name.as_str()), ("all", "gemm", "mine"));
    assert_eq!(file.tables[1].settings.len(), 2, "defaults are those of their own file");
    put("nameless.toml", "include = ['common.toml']\n");
    let file = open("nameless.toml").unwrap();
    assert_eq!((file.name.as_str(), file.description.as_str()), ("nameless", ""), "an included file names nothing");
    assert!(open("loop.toml").unwrap_err().to_string().contains("includes itself"));
    let lost = open("lost.toml").unwrap_err().to_string();
    assert!(lost.contains("lost.toml:1: `include`: ") && lost.ends_with("nowhere.toml is no file"), "{lost}");
}

/// One of two would run in the other's place.
#[test]
fn kernels_of_one_name_are_one_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("team")).unwrap();
    let case = |name: &str| format!("[[gemm]]\nname = '{name}'\nsize = '4x4x4'\nkernel = 'mine'\n");
    let kernel = |program: &str| format!("[kernels.mine]\ncommand = ['{program}', 'k.py']\n");
    put("one.toml", &(case("one") + &kernel("python3")));
    put("same.toml", &(case("same") + &kernel("python3")));
    put("other.toml", &(case("other") + &kernel("python2")));
    put("team/one.toml", &(case("team") + &kernel("python3")));
    put("shared.toml", &kernel("python3"));
    put("team/user.toml", &format!("include = ['../shared.toml']\n{}", case("user")));
    for (files, own, words, reason) in [
        ("'one.toml', 'same.toml'", "", "", "the same program in the same folder"),
        ("'shared.toml', 'team/user.toml'", "", "", "one file by two paths"),
        ("'one.toml', 'other.toml'", "", "other.toml:5: [kernels.mine] is another kernel than that of line 5 of ", "another program"),
        ("'one.toml', 'team/one.toml'", "", "team/one.toml:5: [kernels.mine] is another kernel than that of line 5 of ", "another folder"),
        (
            "'one.toml'",
            "[kernels.mine]\ncommand = ['k']\n",
            "all.toml:2: [kernels.mine] is another kernel",
            "a file's own and an included one",
        ),
    ] {
        put("all.toml", &format!("include = [{files}]\n{own}"));
        match SuiteFile::open(&folder.path().join("all.toml")) {
            Ok(file) => assert!(words.is_empty() && file.kernels.len() == 1, "{reason}: accepted"),
            Err(e) => assert!(!words.is_empty() && e.to_string().contains(words), "{reason}: {e}"),
        }
    }
}

#[test]
fn files_that_are_no_text_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, b"[[gemm]]\nsize = '4x4x4'\n# gr\xfc\xdfe\n").unwrap();
    let error = SuiteFile::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("s.toml:3: is not UTF-8: the byte 0xfc at offset 28 of the file begins no character"), "{error}");
}

#[test]
fn programs_are_told_what_decides_the_problem() {
    for (text, expected) in [
        (
            "[[gemm]]\nsize = '2x3x4x5'\nlayout = 'nt'",
            serde_json::json!({ "kind": "gemm", "layout": "nt", "batch": 2, "m": 3, "n": 4, "k": 5, "relu": 0, "elements": 24, "terms": 5 }),
        ),
        (
            "[[conv]]\nsize = '2 1 3 4 2 3 3 7 8 2 1 1 2 1 0 0 1'\ndirection = 'bwd_data'\nlayout = 'nhwgc,gkyxc,nhwgk'",
            serde_json::json!({
                "kind": "conv", "direction": "bwd_data", "layout": "nhwgc,gkyxc,nhwgk", "g": 1, "n": 3, "k": 4, "c": 2, "y": 3, "x": 3, "hi": 7, "wi": 8,
                "ho": 3, "wo": 5, "stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 2, "pad_h": 1, "pad_w": 0, "pad_right_h": 0, "pad_right_w": 1,
                "elements": 3 * 2 * 7 * 8, "terms": 36,
            }),
        ),
        (
            "[[operator]]\noperator = 'softmax'\nshape = '2x3x5'\naxis = 1",
            serde_json::json!({ "kind": "operator", "outer": 2, "n": 3, "inner": 5, "resized": 3, "elements": 30, "terms": 3 }),
        ),
    ] {
        let suite = suite(text, Kernels::default()).unwrap();
        let description = super::tensor_files::description(&suite.cases[0], serde_json::json!({}));
        assert_eq!(description["problem"], expected, "{text}");
    }
}

/// The 64 elements of a matrix on the host, and what lies beside them: a zone of 16 KiB on either side.
struct Elements(*mut f32);

impl Elements {
    fn of_input(launch: &Launch<'_>, input: usize) -> Elements {
        Elements(launch.input(input).tensor().unwrap().as_ptr().cast_mut().cast())
    }

    fn put(&self, at: isize, x: f32) {
        self.change(at, |_| x);
    }

    fn change(&self, at: isize, f: impl FnOnce(f32) -> f32) {
        assert!((-4096..64 + 4096).contains(&at), "element {at} of 64, between zones of 4096");
        let element = self.0.wrapping_offset(at);
        // SAFETY: inside the matrix or a zone, which nobody reads or writes meanwhile.
        unsafe { element.write_unaligned(f(element.read_unaligned())) }
    }
}

/// A product of 8 x 8 matrices, and what else the kernel does with the address of its result.
fn with_kernel(misdeed: impl Fn(Elements, usize, &mut Launch<'_>) + Send + Sync + 'static, more: &str) -> super::record::CaseResult {
    let runs = AtomicUsize::new(0);
    let kernels = Kernels::default().with("mine", move |launch, _| {
        let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
        let element = |i: usize| (0..8).map(|k| a[i / 8 * 8 + k] * b[k * 8 + i % 8]).sum();
        launch.write(&(0..64).map(element).collect::<Vec<f32>>())?;
        let result = Elements(launch.output()?.as_mut_ptr().cast());
        misdeed(result, runs.fetch_add(1, Ordering::Relaxed), launch);
        Ok(())
    });
    let suite = suite(&format!("[[gemm]]\nsize = '8x8x8'\ntype = 'f32'\nkernel = 'mine'\n{more}"), kernels).unwrap();
    suite.execute(&suite.cases[0], &Device::host())
}

#[test]
fn kernels_that_misbehave_are_found_out() {
    type Misdeed = fn(Elements, usize, &mut Launch<'_>);
    let poke = |at: isize, value: f32| move |result: Elements, _: usize, _: &mut Launch<'_>| result.put(at, value);
    assert!(with_kernel(|_, _, _| {}, "").ok, "a kernel that does what it should");
    for (at, side, offset) in [(-1, Side::Before, -4), (64, Side::After, 256), (100, Side::After, 400)] {
        let result = with_kernel(poke(at, 1e30), "");
        let finding = &result.findings[0];
        assert_eq!((finding.kind, finding.side, finding.offset), (FindingKind::RedZone, Some(side), Some(offset)), "{result:?}");
        assert_eq!((result.outcome, result.ok, finding.buffer.as_str()), (CaseOutcome::Fail, false, "result"));
    }
    let unwritten: Misdeed = |result, run, _| {
        let poison = if run == 0 { f32::from_bits(0x5555_5555) } else { f32::NAN };
        result.put(9, poison)
    };
    let repeats_not: Misdeed = |result, run, _| result.put(5, run as f32 * 1e-9);
    let changes_input: Misdeed = |_, _, launch| {
        let input = Elements::of_input(launch, 1);
        input.put(3, 7.0)
    };
    let writes_behind_input: Misdeed = |_, _, launch| {
        let input = Elements::of_input(launch, 1);
        input.put(64, 7.0)
    };
    let both: Misdeed = |_, _, launch| {
        let input = Elements::of_input(launch, 1);
        [3, 64].into_iter().for_each(|at| input.put(at, 7.0));
    };
    for (misdeed, expected) in [
        (unwritten, vec![(FindingKind::Unwritten, "result", Some(36))]),
        (repeats_not, vec![(FindingKind::NotRepeatable, "result", Some(20))]),
        // The second run has the data of the case again.
        (changes_input, vec![(FindingKind::InputChanged, "b", None)]),
        (writes_behind_input, vec![(FindingKind::RedZone, "b", Some(256))]),
        (both, vec![(FindingKind::RedZone, "b", Some(256)), (FindingKind::InputChanged, "b", None)]),
    ] {
        let result = with_kernel(misdeed, "");
        let found: Vec<_> = result.findings.iter().map(|f| (f.kind, f.buffer.as_str(), f.offset)).collect();
        assert_eq!(found, expected, "{result:?}");
        assert!(!result.ok && result.outcome == CaseOutcome::Fail);
    }
    let before_the_product = Kernels::default().with("mine", |launch, _| {
        let input = Elements::of_input(launch, 0);
        input.put(0, 7.0);
        let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
        let element = |i: usize| (0..8).map(|k| a[i / 8 * 8 + k] * b[k * 8 + i % 8]).sum();
        launch.write(&(0..64).map(element).collect::<Vec<f32>>())?;
        Ok(())
    });
    let suite = suite("[[gemm]]\nsize = '8x8x8'\ntype = 'f32'\nkernel = 'mine'", before_the_product).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    let mismatches = result.metrics.iter().find(|m| m.name == "mismatches").map(|m| m.value);
    assert_eq!(mismatches, Some(8.0), "row 0 is the product of other data than the case's: {result:?}");
}

/// What either run wrote on either side of its result is a finding of its own, which names the run.
#[test]
fn every_zone_of_every_run_is_told() {
    let both_sides = |result: Elements, run: usize, _: &mut Launch<'_>| {
        [-1, 64].into_iter().skip(run).for_each(|at| result.put(at, 1e30));
    };
    let messages: Vec<String> = with_kernel(both_sides, "").findings.into_iter().map(|finding| finding.message).collect();
    let expected = [("before", "first", -4), ("after", "first", 256), ("after", "second", 256)];
    let words = |(place, run, byte)| format!("4 bytes {place} `result` were written in the {run} run, the first at byte {byte} of it");
    assert_eq!(messages, expected.map(words));
}

#[test]
fn the_run_that_fails_is_the_one_that_is_told() {
    let zeros = |result: Elements, run: usize, _: &mut Launch<'_>| {
        (3..5).for_each(|i| result.change(i, |x| x + 2.0 * run as f32));
    };
    for (more, first) in
        [("repeatable = false", "the second run: 2 of 64 elements differ"), ("", "the second run: 2 of 64 elements differ")]
    {
        let result = with_kernel(zeros, more);
        assert!(!result.ok && result.reasons[0] == first, "{result:?}");
        let max_abs = result.metrics.iter().find(|m| m.name == "max_abs").unwrap().value;
        assert!((1.9..2.1).contains(&max_abs), "{max_abs}");
        let report = result.report.unwrap();
        assert_eq!((&report["mismatches"], &report["verdict"], result.details.is_some()), (&2.into(), &"fail".into(), true));
        let finding = result.findings.first().map_or("", |finding| finding.message.as_str());
        let expected = "a second run gave other bits, the first at index 3; 2 of 64 elements differ, finite ones by at most ";
        assert!(finding.is_empty() != more.is_empty() && (finding.is_empty() || finding.starts_with(expected)), "{more}: {finding}");
    }
    let sign = |result: Elements, run: usize, _: &mut Launch<'_>| result.put(63, if run == 0 { 0.0 } else { -0.0 });
    let finding = with_kernel(sign, "").findings.remove(0).message;
    assert_eq!(finding, "a second run gave other bits, the first at index 63, of the same values");
}

#[test]
fn failures_by_metrics_name_the_metrics() {
    let nudge = |result: Elements, _: usize, _: &mut Launch<'_>| result.change(0, |x| x * 1.001);
    let result = with_kernel(nudge, "rule = 'rocmlir-legacy'");
    let said = result.reasons.join("\n");
    assert!(!result.ok && said.contains("max_rel is ") && said.contains(", beyond its limit 1e-6"), "{said}");
    assert!(!said.contains("elements differ") && !said.contains("max_abs is"), "{said}");
    let nan = |result: Elements, _: usize, _: &mut Launch<'_>| result.put(0, f32::NAN);
    let result = with_kernel(nan, "rule = 'rocmlir-legacy'");
    assert!(result.reasons.contains(&"1 of 64 pairs of elements are not finite".to_owned()), "{result:?}");
}

/// A rule may let some elements not pass; a limit on a metric is one on all.
#[test]
fn no_limit_passes_what_is_not_finite() {
    let put = |x: f32| move |result: Elements, _: usize, _: &mut Launch<'_>| result.put(0, x);
    let some = "rule = 'rtol=1e-3,atol=1e-3,allowed_count=3'";
    for (x, more, ok, reason) in [
        (f32::INFINITY, some.to_owned(), true, "one of three"),
        (f32::INFINITY, format!("{some}\nlimits = {{ max_abs = 1e-4, rms = 1e-5, max_ratio = 1 }}"), false, "no metric sees an infinity"),
        (f32::NAN, format!("{some}\nlimits = {{ max_ulp = 1e9 }}"), false, "nor NaN"),
        (f32::INFINITY, format!("{some}\nlimits = {{ mismatches = 1 }}"), true, "it is a mismatch, which one may be"),
        (
            f32::INFINITY,
            "rule = 'atol=1e-3,allowed_count=3,equal_nonfinite=true'\nlimits = { rms = 1 }".to_owned(),
            false,
            "the reference is finite",
        ),
    ] {
        let result = with_kernel(put(x), &more);
        assert_eq!(result.ok, ok, "{reason}: {result:?}");
        let told = "1 of 64 pairs of elements are not finite, and some of them differ: limits hold for finite ones";
        assert_eq!(result.reasons.iter().any(|reason| reason == told), !ok, "{reason}: {result:?}");
    }
    let same = "[[gemm]]\nsize = '4x4x4'\ntype = 'f32'\ndata = 'constant:nan'\nrule = 'atol=1,allowed_count=3,equal_nonfinite=true'\nlimits = { max_abs = 1 }";
    let suite = suite(same, Kernels::default()).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert!(result.outcome != CaseOutcome::Fail, "NaN where the reference has NaN: {result:?}");
}

#[test]
fn a_kernel_that_need_not_repeat_has_to_pass_each_time() {
    let nudge = |by: f32| move |result: Elements, run: usize, _: &mut Launch<'_>| result.change(0, |x| x + run as f32 * by);
    for (by, more, ok, reason) in [
        (1e-7, "", false, "other bits"),
        (1e-7, "repeatable = false", true, "other bits that are allowed"),
        (1.0, "repeatable = false", false, "the second run is wrong"),
    ] {
        let result = with_kernel(nudge(by), more);
        assert_eq!(result.ok, ok, "{reason}: {result:?}");
    }
    let result = with_kernel(nudge(1e-2), "repeatable = false\nrule = 'atol=0.1'\nlimits = { max_abs = 1e-3 }");
    let [reason] = result.reasons.as_slice() else { panic!("{result:?}") };
    assert!(!result.ok && reason.starts_with("the second run: max_abs is "), "only the second run is beyond the limit: {reason}");
}

/// A product of matrices of f32 by whatever part of the formula is not left out. Its accumulators begin with the bias.
fn linear(leave_out: &'static str) -> Kernels {
    Kernels::default().with("mine", move |launch, _| {
        let epilogue = *launch.gemm().ok_or("no gemm")?;
        let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
        let read = |name: &str| launch.input_named(name).filter(|_| name != leave_out).map(|guard| guard.to_vec::<f32>()).transpose();
        let (c, bias) = (read("c")?, read("bias")?);
        let &[m, n] = launch.output_shape() else { return Err("matrices only".into()) };
        let k = a.len() / m;
        let [alpha, beta] = [epilogue.alpha(), epilogue.beta()].map(|x| x as f32);
        let alpha = if leave_out == "alpha" { 1.0 } else { alpha };
        let element = |i: usize| {
            let from = bias.as_ref().map_or(0.0, |bias| bias[i % n] / alpha);
            let x = alpha * (0..k).fold(from, |sum, p| a[i / n * k + p].mul_add(b[p * n + i % n], sum));
            let x = x + c.as_ref().map_or(0.0, |c| beta * c[i]);
            if epilogue.activation() == crate::reference::Epilogue::Relu && leave_out != "relu" { x.max(0.0) } else { x }
        };
        Ok(launch.write(&(0..m * n).map(element).collect::<Vec<f32>>())?)
    })
}

#[test]
fn what_a_gemm_adds_to_its_products_is_tested() {
    let whole = "[[gemm]]\nsize = '8x8x16'\ntype = 'f32'\nkernel = 'mine'\nalpha = 0.5\nbeta = -2\nbias = true\nactivation = 'relu'";
    for (leave_out, outcome) in [
        ("", CaseOutcome::Pass),
        ("alpha", CaseOutcome::Fail),
        ("c", CaseOutcome::Fail),
        ("bias", CaseOutcome::Fail),
        ("relu", CaseOutcome::Fail),
    ] {
        let suite = suite(whole, linear(leave_out)).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        assert_eq!(result.outcome, outcome, "without {leave_out}: {result:?}");
    }
    let suite = suite(whole, linear("")).unwrap();
    let [case] = suite.cases.as_slice() else { panic!("one case") };
    assert_eq!(case.about(), "gemm of [8, 16] by [16, 8], alpha 0.5, beta -2, bias, relu, f32 to f32, against f64 in f64");
    let described = super::tensor_files::description(case, serde_json::json!({}));
    let expected = serde_json::json!({ "alpha": 0.5, "beta": -2.0, "bias": true, "activation": "relu", "scale_a": null, "scale_b": null });
    assert_eq!(described["gemm"], expected);
}

/// Of 64 x 64 results 1 % are positive. Their mean is a hundredth of what was rounded.
#[test]
fn rounding_is_judged_by_what_was_added_and_not_by_what_is_left() {
    let text = "[[gemm]]\nsize = '64x64x4096'\ntype = 'f32'\nkernel = 'mine'\nbias = true\nactivation = 'relu'\n\
        data = 'uniform:-1,1 | uniform:-1,1 | constant:-50'";
    let suite = suite(text, linear("")).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert_eq!(result.outcome, CaseOutcome::Pass, "{result:?}");
    let scale = result.report.unwrap()["atol"].as_f64().unwrap() / (4097.0 * 2f64.powi(-24));
    // The mean of |A B| is sqrt(2 / pi) of sqrt(4096) / 3.
    assert!((scale - (50.0 + 17.0)).abs() < 1.0, "{scale}");
}

/// Of 9 packed elements the tenth half byte keeps the poison, and belongs to nobody.
#[test]
fn what_lies_behind_packed_elements_is_no_result() {
    let suite = suite("[[gemm]]\nsize = '3x3x8'\noutput = 'f4e2m1'\nkernel = 'fma'", Kernels::default()).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert!(result.ok && result.findings.is_empty(), "{result:?}");
}

#[test]
fn outcomes_are_those_of_the_comparison_and_its_limits() {
    let run = |text: &str| {
        let suite = suite(text, Kernels::default().with("broken", |_, _| Err("no such instruction".into()))).unwrap();
        suite.execute(&suite.cases[0], &Device::host())
    };
    for (more, outcome, ok, words) in [
        ("", CaseOutcome::Pass, true, ""),
        ("rule = 'exact'", CaseOutcome::Fail, false, "elements differ"),
        ("rule = 'exact'\nexpected = 'fail'", CaseOutcome::Fail, true, "elements differ"),
        ("rule = 'atol=1e9'", CaseOutcome::Untrusted, false, ""),
        ("rule = 'atol=1e9'\nexpected = 'untrusted'", CaseOutcome::Untrusted, true, ""),
        ("rule = 'rms=1e-3'", CaseOutcome::Pass, true, ""),
        ("rule = 'rms=1e-9'", CaseOutcome::Fail, false, "rms is"),
        ("rule = 'rms=1e-9'\nlimits = { rms = 1 }", CaseOutcome::Fail, false, "beyond its limit 1e-9"),
        ("rule = { rms = 1e-3, rtol = 0 }", CaseOutcome::Fail, false, "elements differ"),
        ("rule = { rms = 1e-3, rtol = 0, allowed_share = 1 }", CaseOutcome::Pass, true, ""),
        ("rule = { rtol = 0, allowed_count = 2 }", CaseOutcome::Fail, false, "elements differ, 2 may"),
        ("rule = 'rms=10'", CaseOutcome::Untrusted, false, ""),
        ("rule = 'max_eps=2'", CaseOutcome::Pass, true, ""),
        ("rule = 'max_eps=1e-3'", CaseOutcome::Fail, false, "max_eps is"),
        ("rule = 'max_eps=4096'", CaseOutcome::Untrusted, false, ""),
        ("rule = 'max_rel_old=0.25'", CaseOutcome::Pass, true, ""),
        ("rule = 'max_rel_old=1e-9'", CaseOutcome::Fail, false, "max_rel_old is"),
        ("rule = 'max_rel_old=1'", CaseOutcome::Untrusted, false, ""),
        ("alpha = 0.5\nbeta = [-2]\nbias = true\nactivation = 'relu'", CaseOutcome::Pass, true, ""),
        ("alpha = 0\nbeta = 1", CaseOutcome::Pass, true, ""),
        ("alpha = 1e308\nbias = true", CaseOutcome::Error, false, "mean of |alpha a b| + |beta c| + |bias| cannot be inf"),
        ("alpha = 3\nbeta = 2\ntype = 'i8'\noutput = 'i32'\nkernel = 'f64'\ndata = 'int:-5,5'", CaseOutcome::Pass, true, ""),
        ("rule = { relative_l2 = 1.5 }", CaseOutcome::Untrusted, false, ""),
        ("rule = { max_abs = 1e-2, max_rel = 1e-2, relative_l1 = 1e-2 }", CaseOutcome::Pass, true, ""),
        ("rule = { profile = 'paddle' }", CaseOutcome::Pass, true, ""),
        ("rule = { rms = 1 }\ndata = 'constant:nan'", CaseOutcome::Fail, false, "256 of 256 pairs of elements are not finite"),
        ("limits = { rms = 1e-9 }", CaseOutcome::Fail, false, "rms is"),
        ("limits = { rms = 1 }", CaseOutcome::Pass, true, ""),
        ("limits = { max_ulp = 0 }", CaseOutcome::Fail, false, "max_ulp is"),
        ("limits = { max_ulp = 1e300 }", CaseOutcome::Pass, true, ""),
        ("type = ['f64']", CaseOutcome::Pass, true, ""),
        ("type = ['i32']", CaseOutcome::Pass, true, ""),
        ("type = ['u32']", CaseOutcome::Pass, true, ""),
        ("type = ['bool']\noutput = 'i32'", CaseOutcome::Pass, true, ""),
        ("type = ['f8e8m0']\noutput = 'f32'", CaseOutcome::Pass, true, ""),
        ("type = 'f32'\noutput = 'i32'", CaseOutcome::Pass, true, ""),
        ("type = 'f32'\noutput = 'i8'\nalpha = 2", CaseOutcome::Pass, true, ""),
        ("type = 'f32'\noutput = 'i32'\nreference_type = 'f64'", CaseOutcome::Fail, false, "elements differ"),
        ("kernel = 'broken'", CaseOutcome::Error, false, "no such instruction"),
        ("kernel = 'broken'\nexpected = 'fail'", CaseOutcome::Error, false, "no such instruction"),
        ("kernel = 'fma@gpu:99'", CaseOutcome::Error, false, "gpu"),
        (
            "kernel = 'gpu'\n[kernels.gpu]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64",
            CaseOutcome::Error,
            false,
            "it needs a gpu",
        ),
    ] {
        let result = run(&format!("[[gemm]]\nsize = '16x16x64'\n{more}"));
        assert_eq!((result.outcome, result.ok), (outcome, ok), "{more}: {result:?}");
        assert!(result.reasons.concat().to_lowercase().contains(words), "{more}: {:?}", result.reasons);
    }
}

#[test]
fn the_study_gives_the_numbers_of_the_replay() {
    let suite = suite("[[study]]\nconfiguration = 'conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16'", Kernels::default()).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    let numbers: Vec<(&str, f64)> = result.metrics.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!((result.ok, numbers.len(), numbers[0]), (true, 14, ("elements", 4.0 * 32.0 * 4.0 * 4.0)), "{result:?}");
    assert_eq!(numbers[1..5].iter().map(|(_, n)| n).sum::<f64>(), numbers[0].1, "every element is exact, one, more or unknown");
}

/// Results pass through JSON from worker to file to merged file.
#[test]
fn numbers_survive_being_read_and_written() {
    // Each is another number when it is read by a reader that takes the nearest but one.
    for x in [5.4319865105531934e-8, 1.4188627802540978e-7, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX] {
        let read: f64 = serde_json::from_str(&serde_json::to_string(&x).unwrap()).unwrap();
        assert_eq!(read.to_bits(), x.to_bits(), "{x:e}");
    }
}

#[test]
fn schemas_of_editors_are_those_of_the_reader() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/suite.schema.json");
    let stored: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(stored, super::schema(), "`hipverify suite schema > docs/suite.schema.json` writes it anew");
}
