//! Instructions in the form in which they are run: what each does is found once, when an object is loaded.

use super::memory::Access;
use super::parse::{Line, Operand, Part, Place};
use super::scalar::{self, Scalar};
use super::vector::{self, Elementwise};

pub(super) struct Instruction {
    pub text: String,
    pub address: u64,
    pub next: u64,
    pub operands: Vec<Operand>,
    pub line: Line,
    /// The part of its register that the result goes to, where that is not all of it.
    pub part: Option<Part>,
    /// Of pairs, for both results: which half of each source is taken, and whether its sign changes.
    pub halves: [([bool; 3], [bool; 3]); 2],
    pub action: Action,
}

/// The kinds of comparison, by the letters of their names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub holds: fn(u64, u64) -> bool,
    pub of: char,
    /// It is the opposite that is asked for.
    pub negated: bool,
}

/// What an instruction does.
pub(super) enum Action {
    /// Each lane by itself.
    Elementwise(Elementwise),
    Compare(Comparison),
    /// v_cndmask_b32.
    Select,
    /// v_add_co_u32 and its like: a sum or difference of two numbers, with a carry in each direction.
    Carry {
        subtract: bool,
        reversed: bool,
        carry_in: bool,
    },
    /// v_mad_u64_u32.
    MultiplyWide {
        signed: bool,
    },
    /// v_readlane_b32, and v_readfirstlane_b32.
    ReadLane {
        first: bool,
    },
    WriteLane,
    /// v_mbcnt_lo_u32_b32 and hi: active bits of a mask below each lane.
    CountBelow {
        high: bool,
    },
    DivideScale {
        wide: bool,
    },
    DivideFused {
        wide: bool,
    },
    /// v_mfma_f32_32x32x1f32 and its like.
    Matrix,
    /// v_pk_fma_f32 and its like.
    Packed(fn([f32; 3]) -> f32),
    PackedMove,
    Scalar(Scalar),
    Branch(Branch),
    Access(Access),
    /// ds_bpermute_b32: words of other lanes.
    Permute,
    Barrier,
    End,
    Nothing,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Branch {
    Always,
    Condition(bool),
    VccZero(bool),
    ExecZero(bool),
}

impl Instruction {
    pub(super) fn new(mut line: Line, text: &str, address: u64, size: u64) -> Instruction {
        // Constants of 16 bits, which are printed without their sign.
        let short = ["s_movk_i32", "s_cmpk_"].iter().any(|name| line.mnemonic.starts_with(name)) && line.mnemonic.ends_with("i32");
        for operand in line.operands.iter_mut().filter(|_| short) {
            if let Place::Whole(x) = operand.place {
                operand.place = Place::Whole(i64::from(x as i16));
            }
        }
        let action = action(&line);
        let part = line.part("dst_sel").filter(|part| part.bits < 32);
        let halves = [("op_sel", false, "neg_lo"), ("op_sel_hi", true, "neg_hi")];
        let halves = halves.map(|(which, otherwise, sign)| (line.bits(which, otherwise), line.bits(sign, false)));
        Instruction { text: text.to_owned(), address, next: address + size, operands: line.operands.clone(), line, part, halves, action }
    }

    /// Where a branch goes: 16 bits, words from the next instruction.
    pub(super) fn target(&self) -> u64 {
        let Some(Operand { place: Place::Whole(words), .. }) = self.operands.first() else { return 0 };
        self.next.wrapping_add_signed(4 * i64::from(*words as i16))
    }
}

/// The name without the ending that says how it is encoded.
pub(super) fn base(mnemonic: &str) -> &str {
    ["_e32", "_e64", "_sdwa"].iter().find_map(|ending| mnemonic.strip_suffix(ending)).unwrap_or(mnemonic)
}

fn action(line: &Line) -> Action {
    let name = base(&line.mnemonic);
    // What is left out here changes results.
    let unknown = ["mul:2", "mul:4", "div:2"].iter().any(|m| line.has(m))
        || ["quad_perm", "row_shr", "row_shl", "row_ror", "row_bcast", "wave_shr", "row_newbcast"].iter().any(|m| line.value(m).is_some());
    // Halves are chosen of pairs of f32 alone.
    let halves = ["op_sel", "op_sel_hi"].iter().any(|m| line.value(m).is_some()) && !(name.starts_with("v_pk_") && name.ends_with("32"));
    if unknown || halves || name.ends_with("_dpp") {
        return Action::Unknown;
    }
    if line.has("clamp") {
        return vector::saturating(name).map_or(Action::Unknown, Action::Elementwise);
    }
    if let Some(action) = special(name) {
        return action;
    }
    if name.starts_with("v_mfma_") {
        return Action::Matrix;
    }
    if let Some(comparison) = vector::comparison(name) {
        return Action::Compare(comparison);
    }
    if let Some(elementwise) = vector::elementwise(name) {
        return Action::Elementwise(elementwise);
    }
    if let Some(access) = Access::of(line) {
        return Action::Access(access);
    }
    scalar::of(name).map_or(Action::Unknown, Action::Scalar)
}

fn special(name: &str) -> Option<Action> {
    let carry = |subtract, reversed, carry_in| Action::Carry { subtract, reversed, carry_in };
    Some(match name {
        "v_cndmask_b32" => Action::Select,
        "v_add_co_u32" => carry(false, false, false),
        "v_addc_co_u32" => carry(false, false, true),
        "v_sub_co_u32" => carry(true, false, false),
        "v_subb_co_u32" => carry(true, false, true),
        "v_subrev_co_u32" => carry(true, true, false),
        "v_subbrev_co_u32" => carry(true, true, true),
        "v_mad_u64_u32" => Action::MultiplyWide { signed: false },
        "ds_bpermute_b32" => Action::Permute,
        "v_mad_i64_i32" => Action::MultiplyWide { signed: true },
        "v_readlane_b32" => Action::ReadLane { first: false },
        "v_readfirstlane_b32" => Action::ReadLane { first: true },
        "v_writelane_b32" => Action::WriteLane,
        "v_mbcnt_lo_u32_b32" => Action::CountBelow { high: false },
        "v_mbcnt_hi_u32_b32" => Action::CountBelow { high: true },
        "v_div_scale_f32" => Action::DivideScale { wide: false },
        "v_div_scale_f64" => Action::DivideScale { wide: true },
        "v_div_fmas_f32" => Action::DivideFused { wide: false },
        "v_div_fmas_f64" => Action::DivideFused { wide: true },
        "v_pk_fma_f32" => Action::Packed(|[a, b, c]| a.mul_add(b, c)),
        "v_pk_mul_f32" => Action::Packed(|[a, b, _]| a * b),
        "v_pk_add_f32" => Action::Packed(|[a, b, _]| a + b),
        "v_pk_mov_b32" => Action::PackedMove,
        "s_branch" => Action::Branch(Branch::Always),
        "s_cbranch_scc0" => Action::Branch(Branch::Condition(false)),
        "s_cbranch_scc1" => Action::Branch(Branch::Condition(true)),
        "s_cbranch_vccz" => Action::Branch(Branch::VccZero(true)),
        "s_cbranch_vccnz" => Action::Branch(Branch::VccZero(false)),
        "s_cbranch_execz" => Action::Branch(Branch::ExecZero(true)),
        "s_cbranch_execnz" => Action::Branch(Branch::ExecZero(false)),
        "s_barrier" => Action::Barrier,
        "s_endpgm" => Action::End,
        // Nothing is cached, and no instruction is under way when the next one begins.
        "s_nop" | "s_waitcnt" | "s_sleep" | "s_setprio" | "s_dcache_wb" | "s_dcache_inv" | "s_icache_inv" | "s_inst_prefetch" | "v_nop" => {
            Action::Nothing
        }
        "buffer_wbl2" | "buffer_invl2" | "buffer_wbinvl1_vol" | "buffer_wbinvl1" | "buffer_inv" => Action::Nothing,
        _ => return None,
    })
}
