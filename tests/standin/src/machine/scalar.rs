//! Scalar instructions: s_mov_b32 and its like.

/// A scalar instruction.
#[derive(Clone, Copy)]
pub(super) struct Scalar {
    pub form: Form,
    /// Words of the sources and of the result.
    pub source: u8,
    pub result: u8,
    /// Result, and the condition code if it changes; from both sources, and the condition code.
    pub run: fn(u64, u64, bool) -> (u64, Option<bool>),
}

/// Where sources and destination are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// `destination, source, source`, or one source.
    Compute,
    /// `source, source`; the result is the condition code.
    Compare,
    /// `destination, constant`: the destination is the first source.
    InPlace,
    /// The sources are `exec` and the operand; `exec` takes the result, the destination what `exec` was.
    SaveExec,
    /// s_getpc_b64.
    Counter,
}

fn signed(x: u64) -> i64 {
    i64::from(x as u32 as i32)
}

fn truth(value: bool) -> (u64, Option<bool>) {
    (0, Some(value))
}

fn logic(x: u64) -> (u64, Option<bool>) {
    (x, Some(x != 0))
}
fn logic_32(x: u64) -> (u64, Option<bool>) {
    logic(x & 0xffff_ffff)
}

pub(super) fn of(name: &str) -> Option<Scalar> {
    compare(name).or_else(|| exec(name)).or_else(|| compute(name))
}

fn compare(name: &str) -> Option<Scalar> {
    let (condition, source) = match name.strip_prefix("s_cmp_").or_else(|| name.strip_prefix("s_cmpk_"))? {
        "eq_u64" => ("eq_u32", 2),
        "lg_u64" => ("lg_u32", 2),
        other => (other, 1),
    };
    let run: fn(u64, u64, bool) -> (u64, Option<bool>) = match condition {
        "eq_u32" | "eq_i32" => |a, b, _| truth(a == b),
        "lg_u32" | "lg_i32" => |a, b, _| truth(a != b),
        "lt_u32" => |a, b, _| truth(a < b),
        "le_u32" => |a, b, _| truth(a <= b),
        "gt_u32" => |a, b, _| truth(a > b),
        "ge_u32" => |a, b, _| truth(a >= b),
        "lt_i32" => |a, b, _| truth(signed(a) < signed(b)),
        "le_i32" => |a, b, _| truth(signed(a) <= signed(b)),
        "gt_i32" => |a, b, _| truth(signed(a) > signed(b)),
        "ge_i32" => |a, b, _| truth(signed(a) >= signed(b)),
        _ => return None,
    };
    Some(Scalar { form: Form::Compare, source, result: 0, run })
}

fn exec(name: &str) -> Option<Scalar> {
    let run: fn(u64, u64, bool) -> (u64, Option<bool>) = match name.strip_suffix("_saveexec_b64")? {
        "s_and" => |exec, x, _| logic(x & exec),
        "s_or" => |exec, x, _| logic(x | exec),
        "s_xor" => |exec, x, _| logic(x ^ exec),
        "s_andn2" => |exec, x, _| logic(x & !exec),
        "s_orn2" => |exec, x, _| logic(x | !exec),
        "s_andn1" => |exec, x, _| logic(!x & exec),
        "s_nand" => |exec, x, _| logic(!(x & exec)),
        _ => return None,
    };
    Some(Scalar { form: Form::SaveExec, source: 2, result: 2, run })
}

/// A field of `1 << 16 | width << 16` and offset, as s_bfe has it.
fn field(x: u64, at: u64, bits: u64) -> u64 {
    let (offset, width) = (at & (bits - 1), at >> 16 & 0x7f);
    if width == 0 { 0 } else { x >> offset & (u64::MAX >> (64 - width.min(64))) }
}

fn compute(name: &str) -> Option<Scalar> {
    arithmetic(name).or_else(|| bitwise(name))
}

fn arithmetic(name: &str) -> Option<Scalar> {
    type Run = fn(u64, u64, bool) -> (u64, Option<bool>);
    let overflow = |form, run: Run| Some(Scalar { form, source: 1, result: 1, run });
    let plain = |run: Run| overflow(Form::Compute, run);
    match name {
        "s_mov_b32" | "s_movk_i32" => plain(|a, _, _| (a, None)),
        "s_mov_b64" => Some(Scalar { form: Form::Compute, source: 2, result: 2, run: |a, _, _| (a, None) }),
        "s_add_u32" => plain(|a, b, _| ((a + b) & 0xffff_ffff, Some(a + b > 0xffff_ffff))),
        "s_addc_u32" => plain(|a, b, c| {
            let sum = a + b + u64::from(c);
            (sum & 0xffff_ffff, Some(sum > 0xffff_ffff))
        }),
        "s_sub_u32" => plain(|a, b, _| (u64::from((a as u32).wrapping_sub(b as u32)), Some(b > a))),
        "s_subb_u32" => plain(|a, b, c| {
            let b = b + u64::from(c);
            (u64::from((a as u32).wrapping_sub(b as u32)), Some(b > a))
        }),
        "s_add_i32" => plain(|a, b, _| {
            let (sum, overflows) = (a as i32).overflowing_add(b as i32);
            (u64::from(sum as u32), Some(overflows))
        }),
        "s_sub_i32" => plain(|a, b, _| {
            let (difference, overflows) = (a as i32).overflowing_sub(b as i32);
            (u64::from(difference as u32), Some(overflows))
        }),
        "s_addk_i32" => overflow(Form::InPlace, |a, b, _| {
            let (sum, overflows) = (a as i32).overflowing_add(i32::from(b as i16));
            (u64::from(sum as u32), Some(overflows))
        }),
        "s_mulk_i32" => overflow(Form::InPlace, |a, b, _| (u64::from((a as i32).wrapping_mul(i32::from(b as i16)) as u32), None)),
        "s_mul_i32" => plain(|a, b, _| (u64::from((a as u32).wrapping_mul(b as u32)), None)),
        "s_mul_hi_u32" => plain(|a, b, _| ((a * b) >> 32, None)),
        "s_mul_hi_i32" => plain(|a, b, _| (u64::from(((signed(a) * signed(b)) >> 32) as u32), None)),
        "s_min_u32" => plain(|a, b, _| (a.min(b), Some(a < b))),
        "s_max_u32" => plain(|a, b, _| (a.max(b), Some(a > b))),
        "s_min_i32" => plain(|a, b, _| (if signed(a) < signed(b) { a } else { b }, Some(signed(a) < signed(b)))),
        "s_max_i32" => plain(|a, b, _| (if signed(a) > signed(b) { a } else { b }, Some(signed(a) > signed(b)))),
        "s_abs_i32" => plain(|a, _, _| logic(u64::from((a as i32).unsigned_abs()))),
        "s_lshl1_add_u32" => plain(|a, b, _| shifted_sum(a << 1, b)),
        "s_lshl2_add_u32" => plain(|a, b, _| shifted_sum(a << 2, b)),
        "s_lshl3_add_u32" => plain(|a, b, _| shifted_sum(a << 3, b)),
        "s_lshl4_add_u32" => plain(|a, b, _| shifted_sum(a << 4, b)),
        "s_getpc_b64" => Some(Scalar { form: Form::Counter, source: 0, result: 2, run: |a, _, _| (a, None) }),
        _ => None,
    }
}

fn shifted_sum(a: u64, b: u64) -> (u64, Option<bool>) {
    ((a + b) & 0xffff_ffff, Some(a + b > 0xffff_ffff))
}

fn bitwise(name: &str) -> Option<Scalar> {
    type Run = fn(u64, u64, bool) -> (u64, Option<bool>);
    if let Some(name) = name.strip_suffix("_b64") {
        let run: Run = match name {
            "s_and" => |a, b, _| logic(a & b),
            "s_or" => |a, b, _| logic(a | b),
            "s_xor" => |a, b, _| logic(a ^ b),
            "s_andn2" => |a, b, _| logic(a & !b),
            "s_orn2" => |a, b, _| logic(a | !b),
            "s_nand" => |a, b, _| logic(!(a & b)),
            "s_nor" => |a, b, _| logic(!(a | b)),
            "s_xnor" => |a, b, _| logic(!(a ^ b)),
            "s_not" => |a, _, _| logic(!a),
            "s_cselect" => |a, b, c| (if c { a } else { b }, None),
            "s_brev" => |a, _, _| (a.reverse_bits(), None),
            "s_lshl" => |a, b, _| logic(a << (b & 63)),
            "s_lshr" => |a, b, _| logic(a >> (b & 63)),
            "s_bcnt1_i32" => |a, _, _| logic(u64::from(a.count_ones())),
            "s_ff1_i32" => |a, _, _| (if a == 0 { 0xffff_ffff } else { u64::from(a.trailing_zeros()) }, None),
            "s_flbit_i32" => |a, _, _| (if a == 0 { 0xffff_ffff } else { u64::from(a.leading_zeros()) }, None),
            "s_bfm" => |a, b, _| (((1u64 << (a & 63)) - 1) << (b & 63), None),
            _ => return None,
        };
        let to_word = name.ends_with("_i32");
        return Some(Scalar { form: Form::Compute, source: 2, result: if to_word { 1 } else { 2 }, run });
    }
    let run: Run = match name {
        "s_ashr_i64" => {
            return Some(Scalar { form: Form::Compute, source: 2, result: 2, run: |a, b, _| logic((a as i64 >> (b & 63)) as u64) });
        }
        "s_bfe_u64" => return Some(Scalar { form: Form::Compute, source: 2, result: 2, run: |a, b, _| logic(field(a, b, 64)) }),
        "s_and_b32" => |a, b, _| logic(a & b),
        "s_or_b32" => |a, b, _| logic(a | b),
        "s_xor_b32" => |a, b, _| logic(a ^ b),
        "s_andn2_b32" => |a, b, _| logic_32(a & !b),
        "s_orn2_b32" => |a, b, _| logic_32(a | !b),
        "s_nand_b32" => |a, b, _| logic_32(!(a & b)),
        "s_nor_b32" => |a, b, _| logic_32(!(a | b)),
        "s_xnor_b32" => |a, b, _| logic_32(!(a ^ b)),
        "s_not_b32" => |a, _, _| logic_32(!a),
        "s_cselect_b32" => |a, b, c| (if c { a } else { b }, None),
        "s_brev_b32" => |a, _, _| (u64::from((a as u32).reverse_bits()), None),
        "s_lshl_b32" => |a, b, _| logic_32(a << (b & 31)),
        "s_lshr_b32" => |a, b, _| logic(a >> (b & 31)),
        "s_ashr_i32" => |a, b, _| logic(u64::from((a as i32 >> (b & 31)) as u32)),
        "s_bcnt1_i32_b32" => |a, _, _| logic(u64::from(a.count_ones())),
        "s_ff1_i32_b32" => |a, _, _| (if a == 0 { 0xffff_ffff } else { u64::from(a.trailing_zeros()) }, None),
        "s_flbit_i32_b32" => |a, _, _| (if a == 0 { 0xffff_ffff } else { u64::from((a as u32).leading_zeros()) }, None),
        "s_bfm_b32" => |a, b, _| ((((1u64 << (a & 31)) - 1) << (b & 31)) & 0xffff_ffff, None),
        "s_bfe_u32" => |a, b, _| logic(field(a, b, 32)),
        "s_bfe_i32" => |a, b, _| {
            let width = b >> 16 & 0x7f;
            let low = field(a, b, 32);
            let extended =
                if width == 0 || width >= 32 { low } else { u64::from(((low << (32 - width)) as u32 as i32 >> (32 - width)) as u32) };
            logic(extended)
        },
        "s_sext_i32_i8" => |a, _, _| (u64::from(i32::from(a as i8) as u32), None),
        "s_sext_i32_i16" => |a, _, _| (u64::from(i32::from(a as i16) as u32), None),
        "s_bitset0_b32" => return in_place(|to, bit, _| (to & !(1 << (bit & 31)), None)),
        "s_bitset1_b32" => return in_place(|to, bit, _| (to | 1 << (bit & 31), None)),
        "s_bitcmp0_b32" => return test(|a, b, _| truth(a >> (b & 31) & 1 == 0)),
        "s_bitcmp1_b32" => return test(|a, b, _| truth(a >> (b & 31) & 1 == 1)),
        "s_pack_ll_b32_b16" => |a, b, _| (a & 0xffff | (b & 0xffff) << 16, None),
        "s_pack_lh_b32_b16" => |a, b, _| (a & 0xffff | b & 0xffff_0000, None),
        "s_pack_hh_b32_b16" => |a, b, _| (a >> 16 | b & 0xffff_0000, None),
        _ => return None,
    };
    Some(Scalar { form: Form::Compute, source: 1, result: 1, run })
}

fn in_place(run: fn(u64, u64, bool) -> (u64, Option<bool>)) -> Option<Scalar> {
    Some(Scalar { form: Form::InPlace, source: 1, result: 1, run })
}

fn test(run: fn(u64, u64, bool) -> (u64, Option<bool>)) -> Option<Scalar> {
    Some(Scalar { form: Form::Compare, source: 1, result: 0, run })
}
