//! Instructions against what the manuals say of them, a few lines at a time.

use super::object::Object;
use super::wave::{Around, LANES, Stop, Wave};
use std::cell::Cell;

fn wave() -> Wave {
    let mut wave =
        Wave { scalars: [0; 128], vectors: vec![[0; LANES]; 32], accumulators: vec![[0; LANES]; 4], condition: false, counter: 0 };
    wave.set_scalar_64(126, u64::MAX);
    wave
}

/// Runs lines to their end, with 64 bytes of shared memory.
fn run(wave: &mut Wave, lines: &[&str]) -> Result<(), String> {
    let lines: Vec<&str> = lines.iter().copied().chain(["s_endpgm"]).collect();
    let object = Object::of_lines(&lines);
    let (mut shared, mut steps) = ([0; 64], 1000);
    let block_of = |_| None;
    let mut around =
        Around { object: &object, shared: &mut shared, block_of: &block_of, last: Cell::default(), steps: &mut steps, arch: "gfx90a" };
    wave.counter = 0;
    assert_eq!(wave.run(&mut around)?, Stop::End);
    Ok(())
}

fn set_f64(wave: &mut Wave, register: usize, x: f64) {
    wave.vectors[register] = [x.to_bits() as u32; LANES];
    wave.vectors[register + 1] = [(x.to_bits() >> 32) as u32; LANES];
}

/// Numbers of every size, as denominators and numerators of each other.
fn pairs() -> impl Iterator<Item = (f64, f64)> {
    let numbers = [
        0.0,
        5e-324,
        1e-310,
        2e-308,
        1e-300,
        1e-45,
        1e-39,
        2e-38,
        1e-30,
        1e-3,
        1.0,
        3.0,
        7.5,
        1e30,
        3e38,
        1e300,
        1.7e308,
        f64::INFINITY,
        f64::NAN,
    ];
    let all = move || numbers.into_iter().flat_map(|x| [x, -x]);
    all().flat_map(move |a| all().map(move |b| (a, b)))
}

/// The steps that the compiler makes of a division, in both formats.
#[test]
fn divisions_are_rounded_once() {
    for (a, b) in pairs() {
        let (narrow_a, narrow_b) = (a as f32, b as f32);
        let mut lanes = wave();
        lanes.vectors[0] = [narrow_a.to_bits(); LANES];
        lanes.vectors[1] = [narrow_b.to_bits(); LANES];
        let steps = [
            "v_div_scale_f32 v2, s[0:1], v1, v1, v0",
            "v_rcp_f32_e32 v3, v2",
            "v_fma_f32 v4, -v2, v3, 1.0",
            "v_fmac_f32_e32 v3, v4, v3",
            "v_div_scale_f32 v4, vcc, v0, v1, v0",
            "v_mul_f32_e32 v5, v4, v3",
            "v_fma_f32 v6, -v2, v5, v4",
            "v_fmac_f32_e32 v5, v6, v3",
            "v_fma_f32 v2, -v2, v5, v4",
            "v_div_fmas_f32 v2, v2, v3, v5",
            "v_div_fixup_f32 v2, v2, v1, v0",
        ];
        run(&mut lanes, &steps).unwrap();
        let (found, expected) = (f32::from_bits(lanes.vectors[2][9]), narrow_a / narrow_b);
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{narrow_a:e} / {narrow_b:e} = {expected:e}, not {found:e}");

        let mut lanes = wave();
        set_f64(&mut lanes, 0, a);
        set_f64(&mut lanes, 2, b);
        let steps = [
            "v_div_scale_f64 v[4:5], s[0:1], v[2:3], v[2:3], v[0:1]",
            "v_rcp_f64_e32 v[6:7], v[4:5]",
            "v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0",
            "v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]",
            "v_div_scale_f64 v[10:11], vcc, v[0:1], v[2:3], v[0:1]",
            "v_mul_f64 v[12:13], v[10:11], v[6:7]",
            "v_fma_f64 v[4:5], -v[4:5], v[12:13], v[10:11]",
            "v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[12:13]",
            "v_div_fixup_f64 v[4:5], v[4:5], v[2:3], v[0:1]",
        ];
        run(&mut lanes, &steps).unwrap();
        let bits = u64::from(lanes.vectors[4][9]) | u64::from(lanes.vectors[5][9]) << 32;
        let (found, expected) = (f64::from_bits(bits), a / b);
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{a:e} / {b:e} = {expected:e}, not {found:e}");
    }
}

#[test]
fn lanes_that_are_off_keep_their_registers() {
    let mut lanes = wave();
    let numbered: [u32; LANES] = std::array::from_fn(|lane| lane as u32);
    lanes.vectors[0] = numbered;
    lanes.vectors[1] = [77; LANES];
    let steps = [
        "v_cmp_gt_u32_e32 vcc, 10, v0",
        "s_and_saveexec_b64 s[0:1], vcc",
        "v_mov_b32_e32 v1, 5",
        "s_mov_b64 exec, s[0:1]",
        "v_readlane_b32 s2, v1, 9",
    ];
    run(&mut lanes, &steps).unwrap();
    assert_eq!((lanes.vectors[1][9], lanes.vectors[1][10], lanes.scalars[2]), (5, 77, 5));
    assert_eq!((lanes.exec(), lanes.condition), (u64::MAX, true));
    // Of the lanes that are off a permutation gives zeros.
    lanes.vectors[2] = [40; LANES];
    lanes.set_scalar_64(126, 0x0f);
    run(&mut lanes, &["ds_bpermute_b32 v3, v2, v0"]).unwrap();
    assert_eq!((lanes.vectors[3][0], lanes.vectors[3][5]), (0, 0));
    lanes.vectors[2] = [8; LANES];
    run(&mut lanes, &["ds_bpermute_b32 v3, v2, v0"]).unwrap();
    assert_eq!(lanes.vectors[3][0], 2);
}

#[test]
fn carries_go_from_one_half_to_the_other() {
    let mut lanes = wave();
    lanes.vectors[0] = [u32::MAX; LANES];
    lanes.vectors[1] = [3; LANES];
    run(&mut lanes, &["v_add_co_u32_e32 v2, vcc, 2, v0", "v_addc_co_u32_e32 v3, vcc, 0, v1, vcc"]).unwrap();
    assert_eq!((lanes.vectors[2][0], lanes.vectors[3][0]), (1, 4));
    run(&mut lanes, &["v_sub_co_u32_e32 v2, vcc, v1, v0", "v_subbrev_co_u32_e32 v3, vcc, 0, v1, vcc"]).unwrap();
    assert_eq!((lanes.vectors[2][0], lanes.vectors[3][0]), (4, 2));
    run(&mut lanes, &["s_mov_b32 s0, -1", "s_add_u32 s2, s0, 1", "s_addc_u32 s3, s0, 5"]).unwrap();
    assert_eq!((lanes.scalars[2], lanes.scalars[3], lanes.condition), (0, 5, true));
    run(&mut lanes, &["v_mad_u64_u32 v[4:5], s[4:5], v0, v0, v[0:1]"]).unwrap();
    let sum = (u64::from(u32::MAX) * u64::from(u32::MAX)).wrapping_add(3 << 32 | u64::from(u32::MAX));
    assert_eq!((lanes.vectors[4][0], lanes.vectors[5][0]), (sum as u32, (sum >> 32) as u32));
}

#[test]
fn parts_and_halves_of_registers() {
    let mut lanes = wave();
    lanes.vectors[0] = [0x8081_8283; LANES];
    lanes.vectors[1] = [0x1122_3344; LANES];
    let steps = [
        "v_lshlrev_b32_sdwa v2, v3, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:BYTE_2",
        "v_or_b32_sdwa v1, v3, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:WORD_0",
        "v_perm_b32 v4, v0, v1, 0x0d0c0400",
    ];
    lanes.scalars[0] = 0x0d0c_0400;
    run(&mut lanes, &[steps[0], steps[1], "v_perm_b32 v4, v0, v1, s0"]).unwrap();
    assert_eq!((lanes.vectors[2][0], lanes.vectors[1][0], lanes.vectors[4][0]), (0x81, 0x8283_3344, 0xff00_8344));
    lanes.vectors[5] = [2f32.to_bits(); LANES];
    lanes.vectors[6] = [3f32.to_bits(); LANES];
    run(
        &mut lanes,
        &[
            "v_pk_fma_f32 v[8:9], v[5:6], v[5:6], v[5:6] op_sel:[0,1,0] neg_hi:[0,0,1]",
            "v_pk_mov_b32 v[10:11], v[5:6], v[5:6] op_sel:[1,0]",
        ],
    )
    .unwrap();
    let floats = [8, 9, 10, 11].map(|register| f32::from_bits(lanes.vectors[register][0]));
    assert_eq!(floats, [8.0, 6.0, 3.0, 2.0]);
}

#[test]
fn loops_end_and_what_is_not_known_is_told() {
    let mut lanes = wave();
    run(&mut lanes, &["s_movk_i32 s0, 0xfffe", "s_add_i32 s0, s0, 1", "s_cmp_lg_u32 s0, 0", "s_cbranch_scc1 65533"]).unwrap();
    assert_eq!(lanes.scalars[0], 0);
    for (line, why) in [
        ("s_branch 65535", "does not end"),
        ("v_exotic_f32 v0, v1", "not known: `v_exotic_f32 v0, v1` at 0x0"),
        ("v_add_f32_e64 v0, v1, v2 clamp", "not known"),
        ("v_mov_b32_dpp v0, v1 row_shr:1", "not known"),
        ("ds_read_b64 v[0:1], v2 offset:60", "8 bytes at 0x3c of 64 of shared memory"),
        ("global_load_dword v0, v[0:1], off", "an access to 4 bytes at 0x0"),
        ("v_mov_b32_e32 v0, v40", "there is no register 40"),
    ] {
        let error = run(&mut wave(), &[line]).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}

#[test]
fn shared_memory_is_read_as_it_was_written() {
    let mut lanes = wave();
    lanes.set_scalar_64(126, 1);
    lanes.vectors[0] = [8; LANES];
    (1..5).for_each(|register| lanes.vectors[register] = [0xabcd_0000 + register as u32; LANES]);
    let steps = [
        "ds_write2_b32 v0, v1, v2 offset0:1 offset1:3",
        "ds_read_b128 v[6:9], v0 offset:4",
        "ds_add_rtn_u32 v10, v0, v3 offset:4",
        "ds_read_i8 v11, v0 offset:5",
        "ds_read_u16 v12, v0 offset:4",
    ];
    run(&mut lanes, &steps).unwrap();
    assert_eq!([6, 8, 10].map(|register| lanes.vectors[register][0]), [0xabcd_0001, 0xabcd_0002, 0xabcd_0001]);
    assert_eq!((lanes.vectors[11][0], lanes.vectors[12][0]), (0, 4));
}
