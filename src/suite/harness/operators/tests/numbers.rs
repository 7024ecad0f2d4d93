//! Operators by numbers of mpmath, with 80 digits (attention 50): results from the definition, gradients as its derivative by differences of 10^-18 to 10^-40, so from no formula of a gradient.

use super::super::Steps;
use super::{FAR, close, operators};

const POSITIVE: [f64; 7] = [1e-12, 0.125, 0.75, 1.25, 3.0, 17.0, 1e6];

/// Every number to 13 digits, whatever its magnitude.
fn alike(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-13 * expected.abs(), "{what}, {i}: {found:e} where {expected:e} is expected");
    }
}

#[test]
fn functions_of_single_elements_have_all_digits() {
    for (name, parameters, x, y, slope) in [
        (
            "log_sigmoid",
            "",
            FAR,
            [
                -12.000006144193478,
                -8.50020344767213,
                -5.255233798151743,
                -1.7014132779827524,
                -0.5759394198788436,
                -0.0004306497976388198,
                -4.139937633089748e-08,
            ],
            [
                0.9999938558253978,
                0.9997965730219448,
                0.9947798743064417,
                0.8175744761936437,
                0.4378234991142019,
                0.00043055708132461493,
                4.1399375473943306e-08,
            ],
        ),
        ("relu6", "", FAR, [0.0, 0.0, 0.0, 0.0, 0.25, 6.0, 6.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        (
            "hardsigmoid",
            "",
            FAR,
            [0.0, 0.0, 0.0, 0.25, 0.5416666666666666, 1.0, 1.0],
            [0.0, 0.0, 0.0, 0.16666666666666666, 0.16666666666666666, 0.0, 0.0],
        ),
        (
            "hardswish",
            "",
            FAR,
            [0.0, 0.0, 0.0, -0.375, 0.13541666666666666, 7.75, 17.0],
            [0.0, 0.0, 0.0, 0.0, 0.5833333333333334, 1.0, 1.0],
        ),
        (
            "selu",
            "",
            FAR,
            [
                -1.7580885387116882,
                -1.7577416232419358,
                -1.7488736822086914,
                -1.3658143533672527,
                0.2626752468388701,
                8.142932652004973,
                17.861916785043167,
            ],
            [
                1.0802135688412635e-05,
                0.00035771760544090435,
                0.009225658638685273,
                0.3922849874801241,
                1.0507009873554805,
                1.0507009873554805,
                1.0507009873554805,
            ],
        ),
        (
            "softsign",
            "",
            FAR,
            [-0.9230769230769231, -0.8947368421052632, -0.84, -0.6, 0.2, 0.8857142857142857, 0.9444444444444444],
            [0.005917159763313609, 0.0110803324099723, 0.0256, 0.16, 0.64, 0.013061224489795919, 0.0030864197530864196],
        ),
        (
            "mish",
            "",
            FAR,
            [
                -7.373032173186587e-05,
                -0.0017293051892410683,
                -0.02747718940616155,
                -0.29809974216680674,
                0.1695724096638176,
                7.749997126619828,
                16.999999999999943,
            ],
            [
                -6.758590174613773e-05,
                -0.0015256815725764646,
                -0.0221711588283522,
                -0.06409781589225864,
                0.7541726677205928,
                1.0000053735262382,
                1.000000000000113,
            ],
        ),
        ("abs", "", FAR, [12.0, 8.5, 5.25, 1.5, 0.25, 7.75, 17.0], [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0]),
        (
            "erf",
            "",
            FAR,
            [-1.0, -1.0, -0.9999999999998869, -0.9661051464753108, 0.27632639016823696, 1.0, 1.0],
            [
                3.266251823898804e-63,
                4.7280138688561636e-32,
                1.2084074716006755e-12,
                0.11893028922362937,
                1.0600141293761143,
                9.282025132492326e-27,
                3.478161866244735e-126,
            ],
        ),
        (
            "atan",
            "",
            FAR,
            [
                -1.4876550949064553,
                -1.4536875822280324,
                -1.382574821490126,
                -0.982793723247329,
                0.24497866312686414,
                1.442473099109102,
                1.512040504079174,
            ],
            [
                0.006896551724137931,
                0.013651877133105802,
                0.0350109409190372,
                0.3076923076923077,
                0.9411764705882353,
                0.016376663254861822,
                0.0034482758620689655,
            ],
        ),
        (
            "asinh",
            "",
            FAR,
            [
                -3.179785437699879,
                -2.8366557289689256,
                -2.360324576243438,
                -1.1947632172871092,
                0.24746646154726346,
                2.744976605111977,
                3.5272244561999657,
            ],
            [
                0.08304547985373997,
                0.1168412475673972,
                0.1871121078899952,
                0.5547001962252291,
                0.9701425001453319,
                0.1279713376301968,
                0.058722021951470346,
            ],
        ),
        (
            "leaky_relu",
            "slope=0.3",
            FAR,
            [-3.5999999999999996, -2.55, -1.575, -0.44999999999999996, 0.25, 7.75, 17.0],
            [0.3, 0.3, 0.3, 0.3, 1.0, 1.0, 1.0],
        ),
        (
            "elu",
            "alpha=1.25",
            FAR,
            [-1.2499923197345584, -1.2497456645387366, -1.2434406020010234, -0.9710872998144627, 0.25, 7.75, 17.0],
            [7.680265441660262e-06, 0.00025433546126330523, 0.00655939799897673, 0.27891270018553727, 1.0, 1.0, 1.0],
        ),
        (
            "swish",
            "beta=1.7",
            FAR,
            [
                -1.6579591070047572e-08,
                -4.506749632044409e-06,
                -0.0006982698425340196,
                -0.10863972804227659,
                0.15116977117850233,
                7.74998529479513,
                16.99999999999522,
            ],
            [
                -2.6803672190968502e-08,
                -7.131264473252998e-06,
                -0.0010538970694796226,
                -0.098884783066706,
                0.7062720576339702,
                1.000023101355055,
                1.0000000000078433,
            ],
        ),
        (
            "stanh",
            "",
            FAR,
            [
                -1.715899643494154,
                -1.715861193639838,
                -1.7128808961373962,
                -1.3104088835541488,
                0.28475516372767645,
                1.715793986698626,
                1.7158999995611726,
            ],
            [
                4.777177839634702e-07,
                5.199993460173402e-05,
                0.0040420400861698276,
                0.47915654554145776,
                1.1179918966777693,
                0.00014205343546800972,
                5.880286284214572e-10,
            ],
        ),
        ("clip", "min=-2,max=0.5", FAR, [-2.0, -2.0, -2.0, -1.5, 0.25, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (
            "log1p",
            "",
            POSITIVE,
            [
                9.999999999995e-13,
                0.11778303565638346,
                0.5596157879354227,
                0.8109302162163288,
                1.3862943611198906,
                2.8903717578961645,
                13.815511557963774,
            ],
            [0.999999999999, 0.8888888888888888, 0.5714285714285714, 0.4444444444444444, 0.25, 0.05555555555555555, 9.99999000001e-07],
        ),
        (
            "log2",
            "",
            POSITIVE,
            [-39.86313713864835, -3.0, -0.4150374992788438, 0.32192809488736235, 1.584962500721156, 4.087462841250339, 19.931568569324174],
            [
                1442695040888.9634,
                11.541560327111707,
                1.923593387851951,
                1.1541560327111706,
                0.4808983469629878,
                0.08486441416993902,
                1.4426950408889634e-06,
            ],
        ),
        (
            "log10",
            "",
            POSITIVE,
            [-12.0, -0.9030899869919435, -0.12493873660829995, 0.09691001300805642, 0.47712125471966244, 1.2304489213782739, 6.0],
            [
                434294481903.25183,
                3.4743558552260145,
                0.5790593092043358,
                0.34743558552260145,
                0.14476482730108395,
                0.02554673422960305,
                4.342944819032518e-07,
            ],
        ),
    ] {
        let operator = |pass: &str| {
            let parameters = if parameters.is_empty() { String::new() } else { format!("parameters = '{parameters}'\n") };
            operators(&format!("operator = '{name}'\nshape = '7'\npass = '{pass}'\n{parameters}")).remove(0)
        };
        alike(&operator("forward").compute(&Steps::F64, &[x.to_vec()]), &y, name);
        let gradient = operator("gradient").compute(&Steps::F64, &[x.to_vec(), vec![1.0; 7]]);
        alike(&gradient, &slope, &format!("gradient of {name}"));
    }
}

#[test]
fn powers_and_products() {
    let (a, b) = (vec![0.5, 2.0, 9.5, 1e-3, 3.0, -2.0], vec![3.0, -1.5, 0.25, 2.5, 0.0, 3.0]);
    let one = vec![1.0; 6];
    let of = |more: &str| operators(&format!("operator = 'pow'\nshape = '6'\n{more}")).remove(0);
    let y = [0.125, 0.3535533905932738, 1.7556215427832071, 3.162277660168379e-08, 1.0, -8.0];
    alike(&of("").compute(&Steps::F64, &[a.clone(), b.clone()]), &y, "pow");
    let of_a = [0.75, -0.2651650429449553, 0.04620056691534755, 7.905694150420948e-05, 0.0, 12.0];
    alike(&of("pass = 'gradient'").compute(&Steps::F64, &[a.clone(), b.clone(), one.clone()]), &of_a, "a");
    let of_b = of("pass = 'gradient'\ngradient_of = 'b'").compute(&Steps::F64, &[a, b, one]);
    let expected = [-0.08664339756999316, 0.2450645358671368, 3.952416380724716, -2.1844240200635404e-07, 1.0986122886681098];
    alike(&of_b[..5], &expected, "b");
    assert!(of_b[5].is_nan(), "a negative number has a power for whole exponents only");

    let prod = |pass: &str| operators(&format!("operator = 'prod'\nshape = '4'\npass = '{pass}'")).remove(0);
    let x = vec![0.5, -1.25, 2.0, 1.5];
    assert_eq!(prod("forward").compute(&Steps::F64, std::slice::from_ref(&x)), [-1.875]);
    assert_eq!(prod("gradient").compute(&Steps::F64, &[x, vec![2.0]]), [-7.5, 3.0, -1.875, -2.5]);
    assert_eq!(prod("gradient").compute(&Steps::F64, &[vec![0.0, 2.0, 0.0, 3.0], vec![1.0]]), [0.0; 4], "two zeros");
    assert_eq!(prod("gradient").compute(&Steps::F64, &[vec![5.0, 2.0, 0.0, 3.0], vec![1.0]]), [0.0, 0.0, 30.0, 0.0], "one");
}

/// From `numpy.linalg.norm`, and the derivative of the definition by mpmath.
#[test]
fn norms_of_any_power() {
    let of = |p: &str, pass: &str| operators(&format!("operator = 'p_norm'\nshape = '4'\nparameters = 'p={p}'\npass = '{pass}'")).remove(0);
    let x = vec![0.5, -1.25, 0.0, 2.0];
    for (p, y, slopes) in [
        ("1", 3.75, [3.0, -3.0, 0.0, 3.0]),
        ("1.5", 2.7576987977142857, [1.277417442683492, -2.0197743208537142, 0.0, 2.554834885366984]),
        ("2", 2.4109126902482387, [0.6221710168382552, -1.5554275420956378, 0.0, 2.4886840673530206]),
        ("5", 2.0371329060068932, [0.010887390896404272, -0.4252887068907919, 0.0, 2.7871720694794937]),
    ] {
        alike(&of(p, "forward").compute(&Steps::F64, std::slice::from_ref(&x)), &[y], p);
        alike(&of(p, "gradient").compute(&Steps::F64, &[x.clone(), vec![3.0]]), &slopes, p);
    }
    let huge = vec![1e200, -1e200, 1e200, 1e200];
    alike(&of("2", "forward").compute(&Steps::F64, std::slice::from_ref(&huge)), &[2e200], "squares overflow");
    alike(&of("2", "gradient").compute(&Steps::F64, &[huge, vec![2.0]]), &[1.0, -1.0, 1.0, 1.0], "and in the gradient");
    assert_eq!(of("3", "gradient").compute(&Steps::F64, &[vec![0.0; 4], vec![2.0]]), [0.0; 4]);
}

/// As `numpy.tril` and `numpy.triu` have it.
#[test]
fn triangles_of_matrices() {
    let x: Vec<f64> = (1..=12).map(f64::from).collect();
    for (name, diagonal, expected) in [
        ("tril", "0", [1, 0, 0, 4, 5, 0, 7, 8, 9, 10, 11, 12]),
        ("tril", "-2", [0, 0, 0, 0, 0, 0, 7, 0, 0, 10, 11, 0]),
        ("triu", "0", [1, 2, 3, 0, 5, 6, 0, 0, 9, 0, 0, 0]),
        ("triu", "1", [0, 2, 3, 0, 0, 6, 0, 0, 0, 0, 0, 0]),
    ] {
        let of = |pass: &str| {
            operators(&format!("operator = '{name}'\nshape = '2x4x3'\nparameters = 'diagonal={diagonal}'\npass = '{pass}'")).remove(0)
        };
        let (twice, expected) = (x.repeat(2), expected.map(f64::from).repeat(2));
        assert_eq!(of("forward").compute(&Steps::F64, std::slice::from_ref(&twice)), expected, "{name} {diagonal}");
        assert_eq!(of("gradient").compute(&Steps::F64, &[vec![f64::NAN; 24], twice]), expected, "{name} {diagonal}");
    }
}

/// Among them classes that are nearly certain, where a difference from 1 or its logarithm has no right digit.
#[test]
fn cross_entropies_have_all_digits() {
    let of = |more: &str| operators(&format!("operator = 'softmax_with_cross_entropy'\nshape = '3'\n{more}")).remove(0);
    let [y, dx, du] = ["", "pass = 'gradient'", "pass = 'gradient'\ngradient_of = 'label'"].map(of);
    for (x, label, expected, of_x, of_label) in [
        (
            [0.0, 60.0, -3.0],
            [0.0, 1.0, 0.0],
            9.192471762702828e-27,
            [6.567383072022391e-27, -6.894353822027122e-27, 3.2697075000473106e-28],
            [45.0, 6.894353822027122e-27, 47.25],
        ),
        (
            [0.5, -1.25, 2.0],
            [0.25, 0.5, 0.125],
            2.2035442352142787,
            [-0.07146175549198969, -0.3548355766607761, 0.4262973321527658],
            [1.2994664873265245, 2.6119664873265247, 0.1744664873265245],
        ),
        ([-700.0, -100.0, 30.0], [0.5, 0.0, 0.5], 365.0, [-0.375, 2.610830129928233e-57, 0.375], [547.5, 97.5, 2.610830129928233e-57]),
    ] {
        let inputs = [x.to_vec(), label.to_vec(), vec![0.75]];
        alike(&y.compute(&Steps::F64, &inputs[..2]), &[expected], "loss");
        alike(&dx.compute(&Steps::F64, &inputs), &of_x, "gradient with respect to x");
        alike(&du.compute(&Steps::F64, &inputs), &of_label, "gradient with respect to label");
    }
    // A class without probability and without a share.
    assert_eq!(y.compute(&Steps::F64, &[vec![0.0, f64::NEG_INFINITY, 0.0], vec![1.0, 0.0, 0.0]]), [std::f64::consts::LN_2]);
}

#[test]
fn a_mask_is_added_before_the_softmax() {
    let of = |name: &str, more: &str| operators(&format!("operator = '{name}'\nshape = '2x3'\n{more}")).remove(0);
    let (x, mask) = (vec![0.5, -1.0, 2.0, 1.0, 1.0, 4.0], vec![0.25, 0.0, -1.0, 0.0, f64::NEG_INFINITY, -2.0]);
    let sum: Vec<f64> = x.iter().zip(&mask).map(|(a, b)| a + b).collect();
    let grad = vec![1.0, 2.0, -3.0, 0.5, 1.0, -1.0];
    let expected = of("softmax", "").compute(&Steps::F64, std::slice::from_ref(&sum));
    assert_eq!(of("softmax_mask", "").compute(&Steps::F64, &[x.clone(), mask.clone()]), expected);
    assert_eq!(expected[4], 0.0, "what is masked has no probability");
    let expected = of("softmax", "pass = 'gradient'").compute(&Steps::F64, &[sum, grad.clone()]);
    for input in ["x", "mask"] {
        let gradient = of("softmax_mask", &format!("pass = 'gradient'\ngradient_of = '{input}'"));
        assert_eq!(gradient.compute(&Steps::F64, &[x.clone(), mask.clone(), grad.clone()]), expected, "{input}");
    }
}

#[test]
fn attention_and_its_gradients() {
    let inputs = [
        [-0.640625, -1.015625, -1.375, 1.0, 0.640625, 0.28125, -0.09375, -0.453125, -0.8125, -1.1875, 1.203125, 0.84375],
        [0.515625, 0.140625, -0.21875, -0.578125, -0.953125, -1.3125, 1.078125, 0.703125, 0.34375, -0.03125, -0.390625, -0.75],
        [-1.078125, -1.4375, 0.9375, 0.578125, 0.203125, -0.15625, -0.515625, -0.890625, -1.25, 1.140625, 0.765625, 0.40625],
        [0.078125, -0.28125, -0.65625, -1.015625, -1.375, 1.0, 0.640625, 0.28125, -0.09375, -0.453125, -0.828125, -1.1875],
    ]
    .map(|input| input.to_vec());
    for (causal, y, gradients) in [
        (
            false,
            [
                0.2522157090218755,
                -0.10715929097812446,
                0.10125001467263767,
                -0.25812498532736233,
                -0.2079366470423831,
                -0.5673116470423831,
                -0.203661341528594,
                0.3275762752266025,
                0.16954454444200787,
                0.47271785038077146,
                -0.5834048256708606,
                -0.30538160489426736,
            ],
            [
                [
                    0.01261036258700107,
                    0.012273380408286263,
                    0.31064060038466523,
                    0.3047860539781592,
                    0.09980949178137757,
                    0.09801272241847708,
                    -0.21253310991285387,
                    -0.20947859212181733,
                    0.03926827818447127,
                    0.039076664413316746,
                    0.31003211586983753,
                    0.30825068016703344,
                ],
                [
                    -0.45534880922091925,
                    0.38512897693213316,
                    0.4051399899975597,
                    -0.3264729387891961,
                    0.05020881922335959,
                    -0.05865603814293709,
                    0.3460773478094357,
                    0.2536310240444373,
                    -0.20054360804733723,
                    -0.08341512676070074,
                    -0.14553373976209846,
                    -0.17021589728373657,
                ],
                [
                    -0.8527871500659825,
                    0.1936758786882643,
                    -0.6219344348260055,
                    -0.09975068243383094,
                    -0.478403415108012,
                    -0.39080019625443335,
                    -0.41608317012765306,
                    -0.779937888227029,
                    -0.009422508067935357,
                    -0.2977561161243109,
                    0.1442556781955884,
                    -0.2816809956486601,
                ],
            ],
        ),
        (
            true,
            [
                -1.078125,
                -1.4375,
                0.03301652001867188,
                -0.3263584799813281,
                -0.2079366470423831,
                -0.5673116470423831,
                -0.515625,
                -0.890625,
                -1.0580142951310563,
                0.6096007099369639,
                -0.5834048256708606,
                -0.30538160489426736,
            ],
            [
                [
                    0.0,
                    0.0,
                    0.43287944961500086,
                    0.42366924855936255,
                    0.09980949178137757,
                    0.09801272241847708,
                    0.0,
                    0.0,
                    0.08538147410967035,
                    0.08538147410967035,
                    0.31003211586983753,
                    0.30825068016703344,
                ],
                [
                    -0.7368301490172522,
                    0.6217947160930609,
                    0.7502304596710235,
                    -0.61591165287921,
                    -0.013400310653771374,
                    -0.005883063213850847,
                    0.2762897970175885,
                    0.12194592363658552,
                    -0.13911924790167415,
                    -0.025748395685165085,
                    -0.1371705491159143,
                    -0.09619752795142043,
                ],
                [
                    -0.9016023536467859,
                    -0.23863795524798648,
                    -0.7876523808529989,
                    -0.25014269238853365,
                    -0.26387026550021514,
                    0.19190564763652013,
                    0.05119217188764731,
                    -0.6472889839344248,
                    -0.26439476454363586,
                    -0.6145086017609551,
                    -0.06804740734401142,
                    -0.09757741430462016,
                ],
            ],
        ),
    ] {
        let of = |more: &str| operators(&format!("operator = 'attention'\nshape = '1x2x3x2'\ncausal = {causal}\n{more}")).remove(0);
        close(&of("").compute(&Steps::F64, &inputs[..3]), &y, 1e-15, "attention");
        for (of_input, expected) in ["q", "k", "v"].into_iter().zip(gradients) {
            let gradient = of(&format!("pass = 'gradient'\ngradient_of = '{of_input}'"));
            close(&gradient.compute(&Steps::F64, &inputs), &expected, 1e-15, &gradient.about());
        }
    }
}

#[test]
fn corners_are_where_the_tables_say() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let bits = |x: &[f64]| x.iter().map(|x| if x.is_nan() { 0x7ff8 << 48 } else { x.to_bits() }).collect::<Vec<u64>>();
    for (name, more, x, y, slopes) in [
        ("relu6", "", [0.0, 6.0, nan, inf], [0.0, 6.0, nan, 6.0], [0.0, 0.0, 2.0, 0.0]),
        ("hardsigmoid", "", [-3.0, 3.0, nan, -inf], [0.0, 1.0, nan, 0.0], [0.0, 0.0, 2.0 / 6.0, 0.0]),
        ("hardswish", "", [-3.0, 3.0, nan, inf], [0.0, 3.0, nan, inf], [0.0, 2.0, nan, 2.0]),
        ("abs", "", [-0.0, -inf, nan, inf], [0.0, inf, nan, inf], [0.0, -2.0, 0.0, 2.0]),
        ("leaky_relu", "", [0.0, -1.0, nan, inf], [0.0, -0.01, nan, inf], [0.02, 0.02, 0.02, 2.0]),
        ("elu", "", [0.0, -inf, nan, inf], [0.0, -1.0, nan, inf], [2.0, 0.0, nan, 2.0]),
        ("clip", "parameters = 'min=-1,max=2'", [-1.0, 2.0, nan, inf], [-1.0, 2.0, nan, 2.0], [2.0, 2.0, 0.0, 0.0]),
        ("mish", "", [0.0, -1000.0, nan, 1000.0], [0.0, -0.0, nan, 1000.0], [1.2, 0.0, nan, 2.0]),
    ] {
        let of = |pass: &str| operators(&format!("operator = '{name}'\nshape = '4'\npass = '{pass}'\n{more}")).remove(0);
        assert_eq!(bits(&of("forward").compute(&Steps::F64, &[x.to_vec()])), bits(&y), "{name}");
        let found = of("gradient").compute(&Steps::F64, &[x.to_vec(), vec![2.0; 4]]);
        let same = found.iter().zip(slopes).all(|(a, b)| (a - b).abs() < 1e-15 || a.is_nan() && b.is_nan());
        assert!(same, "gradient of {name}: {found:?}, not {slopes:?}");
    }
    for (name, x, expected) in [
        ("min", vec![1.0, -3.0, -3.0], -3.0),
        ("argmin", vec![1.0, -3.0, -3.0], 1.0),
        ("argmax", vec![1.0, 3.0, 3.0], 1.0),
        ("argmax", vec![1.0, nan, inf], 1.0),
        ("argmin", vec![-inf, 0.0, nan], 2.0),
    ] {
        let operator = &operators(&format!("operator = '{name}'\nshape = '3'"))[0];
        assert_eq!(operator.compute(&Steps::F64, &[x]), [expected], "{name}");
    }
    let min = &operators("operator = 'min'\nshape = '3'\npass = 'gradient'")[0];
    assert_eq!(min.compute(&Steps::F64, &[vec![1.0, -3.0, -3.0], vec![2.0]]), [0.0, 2.0, 0.0]);
    let (a, b, grad) = (vec![1.0, 1.0, 2.0, nan, 1.0], vec![2.0, 1.0, 1.0, 1.0, nan], vec![inf, -inf, nan, 1.0, inf]);
    let inputs = [a, b, grad];
    let minimum = |more: &str| operators(&format!("operator = 'minimum'\nshape = '5'\n{more}")).remove(0);
    assert_eq!(bits(&minimum("").compute(&Steps::F64, &inputs[..2])), bits(&[1.0, 1.0, 1.0, nan, nan]));
    for (of, expected) in [("a", [inf, -inf, 0.0, 0.0, 0.0]), ("b", [0.0, 0.0, nan, 1.0, inf])] {
        let gradient = minimum(&format!("pass = 'gradient'\ngradient_of = '{of}'"));
        assert_eq!(bits(&gradient.compute(&Steps::F64, &inputs)), bits(&expected), "{of}");
    }
}
