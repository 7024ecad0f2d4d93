//! Kernels that are closures.

use super::super::KernelError;
use super::*;
use crate::fill::{FillConstant, fill};

#[test]
fn closures_have_names_of_their_own() {
    let file = "[kernels.theirs]\ncommand = ['k']\n[[gemm]]\nsize = '4x4x4'\n";
    for (names, words) in [
        (vec!["mine", "other"], ""),
        (vec!["mine", "theirs"], "the name of a closure cannot be theirs: [kernels.theirs] of s.toml is another kernel of that name"),
        (vec!["mine", "mine"], "the name of a closure cannot be mine: two closures have that name"),
        (vec!["fma"], "the name of a closure cannot be fma: a kernel of that name comes with hipverify"),
        (vec!["gfx90a"], "cannot be gfx90a"),
        (vec!["gfx90a:bf16"], "cannot be gfx90a:bf16"),
        (vec!["f64@gpu:1"], "cannot be f64@gpu:1"),
        (vec!["native+short"], "cannot be native+short"),
    ] {
        let kernels = names.iter().fold(Kernels::default(), |kernels, name| kernels.with(name, |_, _| Ok(())));
        let found = suite(file, kernels).map_or_else(|e| e.to_string(), |_| String::new());
        assert!(found.is_empty() == words.is_empty() && found.contains(words), "{names:?}: {found}");
    }
}

/// A kernel's mistakes in Rust are the error of its case, and the next case runs.
#[test]
fn closures_that_fail_say_why() {
    for (kernel, reason) in [
        ((|_| panic!("no tile")) as fn(&mut Launch<'_>) -> std::result::Result<(), KernelError>, "the kernel `mine` panicked: no tile"),
        (|launch| panic!("no tile {}", launch.output_shape()[0]), "the kernel `mine` panicked: no tile 3"),
        (|_| std::panic::panic_any(5), "the kernel `mine` panicked: without a message"),
        (
            |launch| Err(launch.input(9).dtype().to_string().into()),
            "the kernel `mine` panicked: there is no input 9: `gemm/3x4x2` has 3, counted from 0: a, b, bias",
        ),
        (|launch| Ok(launch.write(&[0.0f32; 11])?), "number of elements cannot be 11: `result`, f32[3, 4], has 12 elements in 48 bytes"),
        (|launch| Ok(launch.write(&[0.0f64; 12])?), "the elements of `result`: expected dtype f32, found f64"),
        (|launch| Err(format!("{:?}", launch.input(1).to_vec::<f64>()?).into()), "the elements of `b`: expected dtype f32, found f64"),
        (|launch| Ok(launch.write_bytes(&[0; 44])?), "number of bytes cannot be 44: `result`, f32[3, 4], has 12 elements in 48 bytes"),
    ] {
        let kernels = Kernels::default().with("mine", move |launch, _| kernel(launch));
        let text = "[[gemm]]\nsize = ['3x4x2']\ntype = 'f32'\nbias = true\nkernel = 'mine'\n[[gemm]]\nname = 'next'\nsize = '4x4x4'\n";
        let suite = suite(text, kernels).unwrap();
        let results = suite.cases.iter().map(|case| suite.execute(case, &Device::host())).collect::<Vec<_>>();
        assert_eq!(results[0].reasons, [reason]);
        assert_eq!((results[0].outcome, results[1].outcome), (CaseOutcome::Error, CaseOutcome::Pass), "{reason}");
        let command = "# gemm/3x4x2 of s.toml: the kernel `mine` is a closure of the program that ran it";
        assert_eq!((results[0].command.as_str(), &results[1].command[..14]), (command, "hipverify suit"), "{reason}");
    }
}

/// Inputs are lent for as long as the launch is: the result is written beside them.
#[test]
fn closures_read_and_write_at_a_time() {
    let kernels = Kernels::default().with("mine", |launch, _| {
        let (a, bias) = (launch.input(0), launch.input_named("bias").ok_or("no bias")?);
        let (case, inputs) = (launch.case(), launch.inputs());
        let mut output = launch.output()?;
        let value = a.to_vec::<f32>()?[0] * inputs[1].1.to_vec::<f32>()?[0] + bias.to_vec::<f32>()?[0];
        assert_eq!(case.name, "gemm");
        Ok(fill(&mut output, &FillConstant::new(value.into()))?)
    });
    let suite = suite("[[gemm]]\nsize = '1x1x1'\ntype = 'f32'\nbias = true\nkernel = 'mine'", kernels).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert!(result.ok, "{result:?}");
}

/// C and the bias have the format of the result; each input has a generator of its own.
#[test]
fn c_and_bias_are_inputs_where_they_are_added() {
    let inputs = |more: &str| {
        let kernels = Kernels::default().with("mine", |launch, _| {
            let inputs: Vec<String> =
                launch.inputs().iter().map(|(name, guard)| format!("{name} {}{:?}", guard.dtype(), guard.shape())).collect();
            Err(inputs.join(" ").into())
        });
        let suite = suite(&format!("[[gemm]]\nsize = '2x3x4x5'\ntype = 'f16'\noutput = 'f32'\nkernel = 'mine'\n{more}"), kernels).unwrap();
        suite.execute(&suite.cases[0], &Device::host()).reasons.concat()
    };
    let operands = "a f16[2, 3, 5] b f16[2, 5, 4]";
    for (more, expected) in [
        ("", ""),
        ("alpha = 2\nbeta = 0\nbias = false\nactivation = 'relu'", ""),
        ("beta = 1", " c f32[2, 3, 4]"),
        ("bias = true", " bias f32[4]"),
        ("beta = -1\nbias = true\ndata = 'constant:1 | constant:2 | constant:3 | constant:4'", " c f32[2, 3, 4] bias f32[4]"),
    ] {
        assert_eq!(inputs(more), format!("{operands}{expected}"), "{more}");
    }
}
