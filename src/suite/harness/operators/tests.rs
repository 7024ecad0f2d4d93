//! Operators by numbers that were computed otherwise, gradients by finite differences, kernels that are broken on purpose.

mod cases;
mod numbers;

use super::definitions::definitions;
use super::steps::Fault;
use super::{Operator, Steps};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::suite::record::CaseOutcome;
use crate::suite::{Kernels, Suite, SuiteFile};

fn suite(text: &str) -> Result<Suite> {
    Suite::new(&SuiteFile::parse("s.toml", text)?, "s.toml", Kernels::default())
}

/// The operators of a table.
fn operators(text: &str) -> Vec<Operator> {
    suite(&format!("[[operator]]\n{text}")).unwrap().cases.iter().map(|case| case.operator().unwrap().clone()).collect()
}

/// Numbers from [low, high) that are far from each other and from 0.
fn data(elements: usize, stream: usize, [low, high]: [f64; 2]) -> Vec<f64> {
    let unit = |i: usize| ((i * 37 + stream * 101) as f64 * 0.618_033_988_749_895 + 0.31).fract();
    (0..elements).map(|i| low + (high - low) * unit(i)).collect()
}

fn close(found: &[f64], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= bound * b.abs().max(1.0), "{what}: {found:?} where {expected:?} is expected");
    }
}

/// The numbers of functions come from Python's `math`, those of gelu from its `erfc`; the others were computed by hand.
#[test]
fn forward_passes_give_numbers_that_were_computed_otherwise() {
    let (x, a, b) = ([0.5, -1.25, 2.0], [3.0, -1.0, 2.0], [4.0, 2.0, 0.5]);
    let (weight, bias) = ([2.0, 1.0, -1.0], [0.25, 0.0, 1.0]);
    for (name, more, expected) in [
        ("relu", "", vec![0.5, 0.0, 2.0]),
        ("sigmoid", "", vec![0.6224593312018546, 0.22270013882530884, 0.8807970779778823]),
        ("silu", "", vec![0.3112296656009273, -0.27837517353163604, 1.7615941559557646]),
        ("gelu", "", vec![0.34573123063700656, -0.1320622170835691, 1.9544997361036416]),
        ("gelu_tanh", "", vec![0.34571400982514394, -0.13228579703028542, 1.954597694087775]),
        ("softplus", "", vec![0.9740769841801067, 0.2519290813453729, 2.1269280110429727]),
        ("square", "", vec![0.25, 1.5625, 4.0]),
        ("reciprocal", "", vec![2.0, -0.8, 0.5]),
        ("sum", "", vec![1.25]),
        ("mean", "", vec![1.25 / 3.0]),
        ("max", "", vec![2.0]),
        ("flip", "", vec![2.0, -1.25, 0.5]),
        ("l2_norm", "", vec![5.8125f64.sqrt()]),
        ("logsumexp", "", vec![2.2326219831020326]),
        ("softmax", "", vec![0.17682018210744427, 0.03072674032643643, 0.7924530775661193]),
        ("log_softmax", "", vec![0.5 - 2.2326219831020326, -1.25 - 2.2326219831020326, 2.0 - 2.2326219831020326]),
        ("cumsum", "", vec![0.5, -0.75, 1.25]),
        ("cumprod", "", vec![0.5, -0.625, -1.25]),
        ("logcumsumexp", "", vec![0.5, 0.6602241504380872, 2.2326219831020326]),
        ("layer_norm", "", vec![0.3754908053061681, -1.2549080530616807, -0.1921626504085967]),
        ("rms_norm", "", vec![0.7184193541240619, -0.8980241926550774, -1.4368387082481238]),
        ("nearest", "resized = 5", vec![0.5, 0.5, -1.25, -1.25, 2.0]),
        ("nearest", "resized = 2", vec![0.5, -1.25]),
        // Positions 0, 0.25, 0.75, 1.25, 1.75 and 2 of three elements.
        ("linear", "resized = 6", vec![0.5, 0.0625, -0.8125, -0.4375, 1.1875, 2.0]),
        ("linear", "resized = 1", vec![-1.25]),
        // By exact fractions.
        ("cubic", "resized = 1", vec![-1.25]),
        ("cubic", "resized = 5", vec![0.668, -0.413, -1.25, 0.613, 2.312]),
        ("cubic", "resized = 6", vec![0.6845703125, -0.0107421875, -1.1962890625, -0.6982421875, 1.2021484375, 2.3427734375]),
        ("add", "", vec![7.0, 1.0, 2.5]),
        ("sub", "", vec![-1.0, -3.0, 1.5]),
        ("mul", "", vec![12.0, -2.0, 1.0]),
        ("div", "", vec![0.75, -0.5, 4.0]),
        ("maximum", "", vec![4.0, 2.0, 2.0]),
        ("sinh", "", vec![0.5f64.sinh(), -1.25f64.sinh(), 2f64.sinh()]),
    ] {
        let operator = &operators(&format!("operator = '{name}'\nshape = '3'\n{more}"))[0];
        let inputs: Vec<Vec<f64>> = match operator.inputs().len() {
            1 => vec![x.to_vec()],
            2 if operator.inputs()[0].0 == "a" => vec![a.to_vec(), b.to_vec()],
            _ => [x, weight, bias].map(Vec::from).to_vec(),
        };
        close(&operator.compute(&Steps::F64, &inputs), &expected, 1e-14, name);
    }
    // [1 2; 3 4] [5 6; 7 8], and one channel of two elements each: x̂ is -1 and 1.
    let matmul = &operators("operator = 'matmul'\nshape = '2x2x2'")[0];
    let (p, q) = (vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0]);
    assert_eq!(matmul.compute(&Steps::F64, &[p.clone(), q]), [19.0, 22.0, 43.0, 50.0]);
    let batch = &operators("operator = 'batch_norm'\nshape = '2x2'")[0];
    let scale = [1.0, 1.0].map(|v: f64| 1.0 / (v + 1e-5).sqrt());
    let expected = [-3.0 * scale[0] + 1.0, -scale[1], 3.0 * scale[0] + 1.0, scale[1]];
    close(&batch.compute(&Steps::F64, &[p, vec![3.0, 1.0], vec![1.0, 0.0]]), &expected, 1e-14, "batch_norm");
}

/// At [`FAR`], [`TAN`]: far from 0 and near a pole, where a formula that cancels has few right digits, or none. From mpmath with 200 digits.
#[test]
fn references_have_all_digits_far_from_zero() {
    for (name, pass, expected) in [
        (
            "sigmoid",
            "forward",
            [
                6.144174602214718e-06,
                0.00020342697805520653,
                0.005220125693558397,
                0.18242552380635635,
                0.5621765008857981,
                0.9995694429186753,
                0.9999999586006245,
            ],
        ),
        (
            "sigmoid",
            "gradient",
            [
                6.1441368513331755e-06,
                0.00020338559551980585,
                0.005192875981301848,
                0.14914645207033286,
                0.24613408273759835,
                0.0004303717019243361,
                4.1399373760035016e-08,
            ],
        ),
        (
            "tanh",
            "forward",
            [
                -0.9999999999244973,
                -0.999999917201249,
                -0.9999449286177708,
                -0.9051482536448664,
                0.24491866240370913,
                0.9999996289217963,
                0.9999999999999966,
            ],
        ),
        (
            "tanh",
            "gradient",
            [
                1.510053817597626e-10,
                1.6559749504014006e-07,
                0.00011013973160119325,
                0.18070663892364852,
                0.940014848806378,
                7.421562696482993e-07,
                6.855633726168028e-15,
            ],
        ),
        (
            "silu",
            "forward",
            [
                -7.373009522657661e-05,
                -0.0017291293134692554,
                -0.027405659891181586,
                -0.2736382857095345,
                0.14054412522144952,
                7.746663182619734,
                16.999999296210618,
            ],
        ),
        (
            "silu",
            "gradient",
            [
                -6.758546761378339e-05,
                -0.0015253505838631431,
                -0.02204247320827631,
                -0.041294154299142946,
                0.6237100215701977,
                1.002904823608589,
                1.0000006623899784,
            ],
        ),
        (
            "gelu",
            "forward",
            [
                -2.1317785344932147e-32,
                -8.05760459887282e-17,
                -3.992604271156575e-07,
                -0.1002108019032871,
                0.14967658142073093,
                7.7499999999999645,
                17.0,
            ],
        ),
        (
            "gelu",
            "gradient",
            [
                -2.5578956616748956e-31,
                -6.846504938697085e-16,
                -2.091397663865862e-06,
                -0.12746919222997952,
                0.695373354883636,
                1.0000000000002758,
                1.0,
            ],
        ),
        (
            "gelu_tanh",
            "forward",
            [-1.635985449353481e-61, -1.0174447308598297e-24, -3.958463821495829e-08, -0.10042842301976708, 0.149675350701685, 7.75, 17.0],
        ),
        (
            "gelu_tanh",
            "gradient",
            [-5.290403352522559e-60, -1.7239866867738058e-23, -2.891833674438692e-07, -0.12771079315143308, 0.6953540951510604, 1.0, 1.0],
        ),
        (
            "softplus",
            "forward",
            [
                6.144193477732806e-06,
                0.0002034476721294431,
                0.005233798151743032,
                0.2014132779827524,
                0.8259394198788436,
                7.7504306497976385,
                17.000000041399375,
            ],
        ),
        (
            "softplus",
            "gradient",
            [
                6.144174602214718e-06,
                0.00020342697805520653,
                0.005220125693558397,
                0.18242552380635635,
                0.5621765008857981,
                0.9995694429186753,
                0.9999999586006245,
            ],
        ),
        (
            "tan",
            "forward",
            [
                83858283.00668408,
                -14.101419947171719,
                -0.5463024898437905,
                0.25534192122103627,
                -22877332.42885646,
                1.633123935319537e+16,
                3.49391564547484,
            ],
        ),
        (
            "tan",
            "gradient",
            [
                7032211628829120.0,
                199.85004452649247,
                1.2984464104095248,
                1.06519949673285,
                523372339060408.44,
                2.667093788113571e+32,
                13.207446537693867,
            ],
        ),
    ] {
        let operator = &operators(&format!("operator = '{name}'\nshape = '7'\npass = '{pass}'"))[0];
        let x = if name == "tan" { TAN } else { FAR };
        let inputs = [x.to_vec(), vec![1.0; x.len()]];
        let found = operator.compute(&Steps::F64, &inputs[..operator.inputs().len()]);
        for ((x, found), expected) in x.iter().zip(&found).zip(expected) {
            let error: f64 = (found - expected) / expected;
            assert!(error.abs() <= 1e-13, "{name} {pass} of {x}: {found:e} where {expected:e} is expected");
        }
    }
}

const FAR: [f64; 7] = [-12.0, -8.5, -5.25, -1.5, 0.25, 7.75, 17.0];

/// Among them the numbers of f32 and f64 next to -3π/2 and π/2.
const TAN: [f64; 7] = [-4.71238899230957, -1.5, -0.5, 0.25, 1.5707963705062866, std::f64::consts::FRAC_PI_2, 17.0];

#[test]
fn gradients_that_choose_do_not_multiply() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let bits = |x: &[f64]| x.iter().map(|x| if x.is_nan() { 0x7ff8 << 48 } else { x.to_bits() }).collect::<Vec<u64>>();
    let (x, grad) = (vec![-1.0, 0.0, 2.0, nan, -1.0, 2.0, -inf], vec![inf, -inf, inf, 3.0, nan, nan, 1.0]);
    let relu = &operators("operator = 'relu'\nshape = '7'\npass = 'gradient'")[0];
    assert_eq!(bits(&relu.compute(&Steps::F64, &[x, grad])), bits(&[0.0, 0.0, inf, 0.0, 0.0, nan, 0.0]));
    let (a, b, grad) = (vec![1.0, 1.0, 2.0, nan, 1.0], vec![2.0, 1.0, 1.0, 1.0, nan], vec![inf, -inf, nan, 1.0, inf]);
    let inputs = [a, b, grad];
    for (of, expected) in [("a", [0.0, -inf, nan, 0.0, 0.0]), ("b", [inf, 0.0, 0.0, 1.0, inf])] {
        let maximum = &operators(&format!("operator = 'maximum'\nshape = '5'\npass = 'gradient'\ngradient_of = '{of}'"))[0];
        assert_eq!(bits(&maximum.compute(&Steps::F64, &inputs)), bits(&expected), "{of}");
    }
}

#[test]
fn what_moves_numbers_has_no_sum_behind_it() {
    for (text, terms) in [
        ("operator = 'sum'", 1000),
        ("operator = 'mean'", 1000),
        ("operator = ['sum', 'mean']\npass = 'gradient'", 1),
        ("operator = ['max', 'flip']\npass = ['forward', 'gradient']", 1),
        ("operator = 'nearest'\nresized = 2000", 1),
        ("operator = 'linear'\nresized = 2000", 2),
        ("operator = 'cubic'\nresized = 2000", 4),
        ("operator = 'cubic'\npass = 'gradient'\nresized = 2000", 8),
        ("operator = ['min', 'argmax', 'argmin', 'abs', 'less_than']", 1),
        ("operator = ['softmax', 'cumsum', 'l2_norm']\npass = ['forward', 'gradient']", 1000),
    ] {
        for operator in operators(&format!("{text}\nshape = '2x1000'")) {
            assert_eq!(operator.terms(), terms, "{}", operator.about());
        }
    }
}

/// Cases of every operator in a pass, on three shapes and axes.
fn every_operator(pass: &str) -> Vec<Operator> {
    let mut all = Vec::new();
    for definition in definitions().filter(|definition| pass == "forward" || !definition.counts()) {
        let name = definition.name;
        let shapes: &[&str] = match name {
            "matmul" => &["shape = ['3x2x4', '2x3x2x4']"],
            "attention" => &["shape = '2x1x4x3'\ncausal = [true, false]"],
            "tril" | "triu" => &["shape = '2x3x4'\nparameters = ['diagonal=-1', 'diagonal=0', 'diagonal=1']"],
            "p_norm" => &["shape = '3x4x2'\naxis = [0, 1, -1]\nparameters = ['p=1.25', 'p=2', 'p=3']"],
            "clip" => &["shape = '3x4'\nparameters = 'min=-0.6,max=1.1'"],
            "nearest" | "linear" | "cubic" => &["shape = '2x5'\nresized = [3, 5, 12]", "shape = '3x4x2'\naxis = 1\nresized = 7"],
            _ if operators(&format!("operator = '{name}'\nshape = '3x4x2'"))[0].axis().is_none() => &["shape = '3x4'"],
            _ => &["shape = '2x5'", "shape = '3x4x2'\naxis = [0, 1, -1]"],
        };
        for shape in shapes {
            let inputs = definition.inputs().iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
            let of = if pass == "gradient" { format!("gradient_of = [{inputs}]") } else { String::new() };
            all.extend(operators(&format!("operator = '{name}'\npass = '{pass}'\n{of}\n{shape}")));
        }
    }
    all
}

/// The forward pass whose gradient an operator is.
fn forward(gradient: &Operator) -> Operator {
    Operator { gradient_of: None, ..gradient.clone() }
}

fn inputs(operator: &Operator, range: [f64; 2]) -> Vec<Vec<f64>> {
    let extents = operator.inputs();
    extents.iter().enumerate().map(|(i, (_, extents))| data(extents.iter().product(), i, range)).collect()
}

/// Central differences of Σ grad y: their error is of the order of h², and of the rounding of f64 over h.
#[test]
fn gradients_are_those_of_finite_differences() {
    const H: f64 = 1e-5;
    let (mut seen, positive) = (0, ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "pow"]);
    for gradient in every_operator("gradient") {
        let (forward, of) = (forward(&gradient), gradient.gradient_of.unwrap());
        for range in [[0.25, 1.75], [-1.5, 1.25]] {
            if range[0] < 0.0 && positive.contains(&gradient.name()) {
                continue;
            }
            let inputs = inputs(&gradient, range);
            let (of_forward, grad) = inputs.split_at(inputs.len() - 1);
            let product =
                |inputs: &[Vec<f64>]| -> f64 { forward.compute(&Steps::F64, inputs).iter().zip(&grad[0]).map(|(y, g)| y * g).sum() };
            let slope = |i: usize| {
                let moved = |by: f64| {
                    let mut moved = of_forward.to_vec();
                    moved[of][i] += by;
                    product(&moved)
                };
                (moved(H) - moved(-H)) / (2.0 * H)
            };
            let expected: Vec<f64> = (0..of_forward[of].len()).map(slope).collect();
            close(&gradient.compute(&Steps::F64, &inputs), &expected, 2e-7, &gradient.about());
            seen += 1;
        }
    }
    assert!(seen > 2 * definitions().count(), "{seen} gradients");
}

/// Results are numbers of the format of the steps, and those of f32 are near those of f64.
#[test]
fn formats_of_steps_change_the_result_a_little() {
    let steps = |format| Steps { format, fault: None };
    for operator in every_operator("forward").into_iter().chain(every_operator("gradient")) {
        let inputs = inputs(&operator, [0.25, 1.75]);
        let rounded: Vec<Vec<f64>> = inputs.iter().map(|x| x.iter().map(|&x| steps(DType::Bf16).round(x)).collect()).collect();
        let exact = operator.compute(&Steps::F64, &rounded);
        close(&operator.compute(&steps(DType::F32), &rounded), &exact, 1e-5, &operator.about());
        let coarse = operator.compute(&steps(DType::Bf16), &rounded);
        assert!(coarse.iter().all(|&y| steps(DType::Bf16).round(y) == y), "{}: {coarse:?}", operator.about());
    }
}

#[test]
fn faults_change_the_operators_that_can_have_them_and_no_others() {
    for operator in every_operator("forward").into_iter().chain(every_operator("gradient")) {
        let f32 = Steps { format: DType::F32, fault: None };
        // The larger numbers let exponentials of f32 overflow.
        let ranges = [[0.25, 1.75], [60.0, 190.0]].map(|range| inputs(&operator, range));
        for (fault, name) in Fault::ALL {
            let changes = |inputs: &Vec<Vec<f64>>| {
                let bits = |steps: &Steps| operator.compute(steps, inputs).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let right = bits(&f32);
                // Neighbours that are equal, and zeros, do not show.
                let hidden = right.iter().all(|&x| x == right[0]) && (fault == Fault::Neighbour || fault == Fault::Zeros && right[0] == 0);
                (bits(&Steps { fault: Some(fault), ..f32 }) != right, hidden)
            };
            let [(small, hidden), (large, _)] = [&ranges[0], &ranges[1]].map(changes);
            let allowed = operator.kernel(&format!("f32+{name}"), DType::F16).is_ok();
            let about = operator.about();
            assert!(
                allowed || !(small || large) || operator.output().iter().product::<usize>() == 1,
                "{name} is refused for {about}, and changes it"
            );
            assert!(!allowed || small || large || hidden, "{name} changes nothing of {about}");
        }
    }
}

#[test]
fn corners_and_non_finite_numbers() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (name, x, expected) in [
        ("relu", [nan, -inf, inf], [nan, 0.0, inf]),
        ("softmax", [1.0, inf, 0.0], [0.0, nan, 0.0]),
        ("softmax", [-inf, 0.0, 0.0], [0.0, 0.5, 0.5]),
        ("softplus", [1000.0, -1000.0, 0.0], [1000.0, 0.0, std::f64::consts::LN_2]),
        ("cumprod", [0.0, 2.0, nan], [0.0, 0.0, nan]),
        ("logcumsumexp", [-inf, 1.0, inf], [-inf, 1.0, inf]),
        ("cumsum", [inf, 1.0, -inf], [inf, inf, nan]),
    ] {
        let y = operators(&format!("operator = '{name}'\nshape = '3'"))[0].compute(&Steps::F64, &[x.to_vec()]);
        let same = y.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
        assert!(same, "{name} of {x:?} is {y:?}, not {expected:?}");
    }
    for (name, x, g, expected) in [
        ("max", vec![1.0, 3.0, 3.0], vec![2.0], vec![0.0, 2.0, 0.0]),
        ("max", vec![1.0, nan, 3.0], vec![2.0], vec![0.0, 2.0, 0.0]),
        ("l2_norm", vec![0.0, 0.0], vec![2.0], vec![0.0, 0.0]),
        ("cumprod", vec![2.0, 0.0, 3.0], vec![1.0, 1.0, 1.0], vec![1.0, 8.0, 0.0]),
        ("relu", vec![0.0, -0.0, 1.0], vec![5.0, 5.0, 5.0], vec![0.0, 0.0, 5.0]),
    ] {
        let operator = &operators(&format!("operator = '{name}'\npass = 'gradient'\nshape = '{}'", x.len()))[0];
        assert_eq!(operator.compute(&Steps::F64, &[x, g]), expected, "{name}");
    }
}

/// A row of the table, or a place among others in one.
#[test]
fn every_operator_is_in_the_documentation() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operators.md");
    let text = std::fs::read_to_string(path).unwrap();
    let first_cells = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let documented: Vec<&str> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    for definition in definitions() {
        assert!(documented.contains(&definition.name), "{} is not in docs/operators.md", definition.name);
    }
}

#[test]
fn keys_that_do_not_fit_are_refused_with_their_line() {
    for (text, words) in [
        ("shape = '4'", "s.toml:1: case `operator`: `operator` is missing"),
        ("operator = 'softmx'\nshape = '4'", "s.toml:2: case `operator`: unknown operator `softmx`; did you mean `softmax`?"),
        ("operator = 'relu'", "`shape` is missing"),
        ("operator = 'relu'\nshape = '4x0'", "s.toml:3: case `operator`: shape of an operator cannot be 4x0"),
        ("operator = 'matmul'\nshape = '4x4'", "MxNxK"),
        ("operator = 'relu'\nshape = '4'\naxis = 0", "s.toml:4: case `operator`: `axis` is not for relu"),
        ("operator = 'sum'\nshape = '4x4'\naxis = 2", "it must be from -2 to 1"),
        ("operator = 'sum'\nshape = '4x4'\nresized = 2", "`resized` is not for sum"),
        ("operator = 'linear'\nshape = '4x4'", "`resized` is missing"),
        ("operator = 'linear'\nshape = '4x4'\nresized = 0", "extents such as 4x64"),
        ("operator = 'linear'\nshape = '4x4'\nresized = 'x'", "it must be an extent"),
        ("operator = 'relu'\nshape = '4'\npass = 'backward'", "it must be forward or gradient"),
        ("operator = 'relu'\nshape = '4'\ngradient_of = 'x'", "is for pass = \"gradient\""),
        ("operator = 'rms_norm'\nshape = '4'\npass = 'gradient'\ngradient_of = 'bias'", "has no input `bias`; it has x weight"),
        ("operator = 'relu'\nshape = '4'\ntype = 'i8'", "the format i8 is not supported by operators (they have f16 bf16 f32 f64)"),
        ("operator = 'relu'\nshape = '4'\noutput = 'f8e4m3'", "s.toml:4: case `operator`: the format f8e4m3"),
        ("operator = 'relu'\nshape = '4'\nkernel = 'gfx90a'", "it must be f32, native, f64"),
        ("operator = 'relu'\nshape = '4'\nkernel = 'f32+short'", "relu of x[4] cannot be broken in that way"),
        ("operator = 'add'\nshape = '4'\ndata = 'r0 | r0 | r0'", "one for each of the 2 inputs"),
        ("operator = 'add'\nshape = '4'\nreference = 'f64'", "unknown key `reference`"),
        (
            "operator = 'add'\nshape = '4'\nrule = 'paddle'\npass = 'gradient'\ntype = 'f32'",
            "s.toml:4: case `operator`: dtype f32 is not supported",
        ),
    ] {
        let error = suite(&format!("[[operator]]\n{text}")).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// From the text of a suite to the verdict, on the host.
#[test]
fn cases_of_operators_run_like_others() {
    let run = |text: &str| {
        let kernels = Kernels::default().with("mine", |launch, _| {
            let operator = launch.operator().ok_or("no operator")?;
            assert_eq!((operator.name(), operator.gradient_of(), operator.axis()), ("add", Some("b"), None));
            let grad = launch.input(2).to_vec::<crate::dtype::F16>()?;
            Ok(launch.write(&grad)?)
        });
        let text = format!("[[operator]]\nshape = '8x64'\n{text}");
        let suite = Suite::new(&SuiteFile::parse("s.toml", &text).unwrap(), "s.toml", kernels).unwrap();
        suite.execute(&suite.cases[0], &Device::host())
    };
    for (text, outcome, ok) in [
        ("operator = 'softmax'\nrule = 'paddle'", CaseOutcome::Pass, true),
        ("operator = 'softmax'\nrule = 'paddle'\nkernel = 'native'\ntype = 'bf16'", CaseOutcome::Pass, true),
        ("operator = 'softmax'\nkernel = 'native'\ntype = 'bf16'\nexpected = 'fail'", CaseOutcome::Fail, true),
        ("operator = 'softmax'\npass = 'gradient'\nkernel = 'f32+detached'\nexpected = 'fail'\nrule = 'paddle'", CaseOutcome::Fail, true),
        ("operator = 'layer_norm'\npass = 'gradient'\ngradient_of = 'weight'\ntype = 'f32'", CaseOutcome::Pass, true),
        ("operator = 'add'\npass = 'gradient'\ngradient_of = 'b'\nkernel = 'mine'\nrule = 'exact'", CaseOutcome::Pass, true),
        ("operator = 'linear'\nresized = 96\nkernel = 'f64'", CaseOutcome::Pass, true),
    ] {
        let result = run(text);
        assert_eq!((result.outcome, result.ok), (outcome, ok), "{text}: {result:?}");
    }
}

/// A product's error grows with its factors, relative to it: for vectors whose products are far above the mean of all that is more than sums have.
#[test]
fn products_of_many_factors_are_right_and_wrong_ones_are_not() {
    let run = |text: &str| {
        let text = format!("[[operator]]\nshape = '16x1024'\n{text}");
        let suite = Suite::new(&SuiteFile::parse("s.toml", &text).unwrap(), "s.toml", Kernels::default()).unwrap();
        suite.execute(&suite.cases[0], &Device::host())
    };
    for name in ["prod", "cumprod"] {
        for pass in ["forward", "gradient"] {
            for (dtype, data, kernel, outcome) in [
                // Products of all orders of magnitude: so are their errors, and zeros would pass for most.
                ("f32", "0.5,1.5", "f32", CaseOutcome::Untrusted),
                ("f32", "0.9,1.1", "f32", CaseOutcome::Pass),
                ("f16", "0.9,1.1", "f32", CaseOutcome::Pass),
                ("f32", "0.9,1.1", "f32+neighbour", CaseOutcome::Fail),
                ("f16", "0.9,1.1", "f32+neighbour", CaseOutcome::Fail),
                ("f16", "0.9,1.1", "native", CaseOutcome::Fail),
            ] {
                let result =
                    run(&format!("operator = '{name}'\npass = '{pass}'\ntype = '{dtype}'\ndata = 'uniform:{data}'\nkernel = '{kernel}'"));
                assert_eq!(result.outcome, outcome, "{name} {pass} {dtype} {data} {kernel}: {:?}", result.reasons);
            }
        }
    }
}
