//! Instructions as llvm-objdump prints them: a mnemonic, operands, modifiers.

/// A register or a constant. Scalar registers count as the machine does: `flat_scratch` is 102, `vcc` 106, `m0` 124, `exec` 126.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Scalar(u8),
    Vector(u16),
    Accumulation(u16),
    /// A whole number, or one that is printed with a point, whose pattern depends on the width of the operand.
    Whole(i64),
    Float(f64),
    /// No register: `off`, or a word that is no operand.
    Nothing,
}

impl Place {
    /// The register that follows after so many.
    pub(super) fn after(self, registers: usize) -> Place {
        match self {
            Place::Vector(first) => Place::Vector(first + registers as u16),
            Place::Accumulation(first) => Place::Accumulation(first + registers as u16),
            other => other,
        }
    }
}

/// Which part of a 32-bit source an instruction takes (SDWA).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub shift: u8,
    pub bits: u8,
    pub signed: bool,
}

/// An operand with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operand {
    pub place: Place,
    /// Registers that it spans.
    pub registers: u8,
    pub negative: bool,
    pub absolute: bool,
    /// None where all of it is taken.
    pub part: Option<Part>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub mnemonic: String,
    pub operands: Vec<Operand>,
    pub modifiers: Vec<String>,
}

const NOTHING: Operand = Operand { place: Place::Nothing, registers: 0, negative: false, absolute: false, part: None };

impl Line {
    /// Reads `v_add_f32_e64 v0, |v1|, -v2`.
    pub(super) fn parse(text: &str) -> Line {
        let (mnemonic, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let (mut operands, mut modifiers) = (Vec::new(), Vec::new());
        for piece in split(rest) {
            let mut words = piece.split_whitespace();
            operands.extend(words.next().map(operand));
            modifiers.extend(words.map(str::to_owned));
        }
        // An instruction without operands may have modifiers.
        let mut line = Line { mnemonic: mnemonic.to_owned(), operands, modifiers };
        line.take_parts();
        line
    }

    pub(super) fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| m == modifier)
    }

    /// The number of `offset:12`.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.value(name).and_then(whole)
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.modifiers.iter().find_map(|m| m.strip_prefix(name)?.strip_prefix(':'))
    }

    /// The bits of `op_sel:[0,1]`, those that are not given as `otherwise`.
    pub(super) fn bits(&self, name: &str, otherwise: bool) -> [bool; 3] {
        let mut bits = [otherwise; 3];
        let given = self.value(name).unwrap_or_default().trim_matches(['[', ']']);
        for (bit, word) in bits.iter_mut().zip(given.split(',').filter(|word| !word.is_empty())) {
            *bit = word == "1";
        }
        bits
    }

    /// The part that `dst_sel:BYTE_1` names.
    pub(super) fn part(&self, name: &str) -> Option<Part> {
        self.value(name).and_then(part)
    }

    /// Gives `src0_sel:BYTE_1` to the sources.
    fn take_parts(&mut self) {
        let first = 1;
        for (i, name) in ["src0_sel", "src1_sel"].into_iter().enumerate() {
            let Some(part) = self.part(name) else { continue };
            if let Some(operand) = self.operands.get_mut(first + i) {
                let signed = operand.part.is_some_and(|part| part.signed);
                operand.part = Some(Part { signed, ..part });
            }
        }
    }
}

/// At commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth -= 1,
            b',' if depth == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

fn part(name: &str) -> Option<Part> {
    let (what, number) = name.split_once('_').unwrap_or((name, "0"));
    let number: u8 = number.parse().ok()?;
    let bits = match what {
        "BYTE" => 8,
        "WORD" => 16,
        _ => 32,
    };
    Some(Part { shift: bits % 32 * number, bits, signed: false })
}

pub(super) fn whole(text: &str) -> Option<i64> {
    let (text, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(sign * number)
}

fn operand(word: &str) -> Operand {
    if let Some(inner) = word.strip_prefix("sext(").and_then(|rest| rest.strip_suffix(')')) {
        return Operand { part: Some(Part { shift: 0, bits: 32, signed: true }), ..operand(inner) };
    }
    if let Some(whole) = whole(word) {
        return Operand { place: Place::Whole(whole), ..NOTHING };
    }
    if let Ok(float) = word.parse::<f64>() {
        return Operand { place: Place::Float(float), ..NOTHING };
    }
    let (rest, negative) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
    let (rest, absolute) = rest.strip_prefix('|').map_or((rest, false), |rest| (rest.trim_end_matches('|'), true));
    let (place, registers) = register(rest);
    Operand { place, registers, negative, absolute, part: None }
}

fn register(name: &str) -> (Place, u8) {
    let named = match name {
        "flat_scratch" => Some((102, 2)),
        "flat_scratch_lo" => Some((102, 1)),
        "flat_scratch_hi" => Some((103, 1)),
        "xnack_mask" => Some((104, 2)),
        "vcc" => Some((106, 2)),
        "vcc_lo" => Some((106, 1)),
        "vcc_hi" => Some((107, 1)),
        "m0" => Some((124, 1)),
        "exec" => Some((126, 2)),
        "exec_lo" => Some((126, 1)),
        "exec_hi" => Some((127, 1)),
        _ => None,
    };
    if let Some((first, registers)) = named {
        return (Place::Scalar(first), registers);
    }
    let Some(kind) = name.chars().next().filter(|kind| "sva".contains(*kind)) else { return (Place::Nothing, 0) };
    let numbers = name[1..].trim_matches(['[', ']']);
    let (first, last) = numbers.split_once(':').unwrap_or((numbers, numbers));
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else { return (Place::Nothing, 0) };
    let place = match kind {
        's' => Place::Scalar(first as u8),
        'v' => Place::Vector(first),
        _ => Place::Accumulation(first),
    };
    (place, (last - first + 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_disassembler_are_read() {
        let line = Line::parse("v_cvt_f32_f64_e64 v2, -|v[4:5]|  ");
        assert_eq!(line.mnemonic, "v_cvt_f32_f64_e64");
        let source = line.operands[1];
        assert_eq!((source.place, source.registers, source.negative, source.absolute), (Place::Vector(4), 2, true, true));
        let line = Line::parse("global_load_dwordx4 v[10:13], v[10:11], off offset:-16 glc slc");
        assert_eq!((line.operands[2].place, line.number("offset"), line.has("slc")), (Place::Nothing, Some(-16), true));
        let line = Line::parse("v_cmp_ne_u16_sdwa s[10:11], v1, sext(v4) src0_sel:DWORD src1_sel:BYTE_2");
        assert_eq!(line.operands[0].place, Place::Scalar(10));
        assert_eq!(line.operands[2].part, Some(Part { shift: 16, bits: 8, signed: true }));
        let line = Line::parse("v_pk_add_f32 v[32:33], v[14:15], s[40:41] op_sel:[0,1] neg_lo:[0,1]");
        assert_eq!((line.bits("op_sel", false), line.bits("op_sel_hi", true)), ([false, true, false], [true; 3]));
        let line = Line::parse("v_fma_f64 v[0:1], v[2:3], -4.0, 0xbf800000");
        assert_eq!((line.operands[2].place, line.operands[3].place), (Place::Float(-4.0), Place::Whole(0xbf80_0000)));
    }
}
