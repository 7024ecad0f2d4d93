//! A wavefront: its registers, and what instructions do to them.

use super::object::Object;
use super::parse::{Operand, Part, Place};
use super::program::{Action, Branch, Comparison, Instruction};
use super::scalar::{Form, Scalar};
use super::vector::{Elementwise, exponent_f32, exponent_f64, ldexp};

use std::cell::Cell;

/// Lanes of a wavefront on the chips that this runs the code of.
pub(super) const LANES: usize = 64;

const VCC: u8 = 106;
const EXEC: u8 = 126;

/// Why a wavefront stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stop {
    Barrier,
    End,
}

pub(super) struct Wave {
    pub scalars: [u32; 128],
    pub vectors: Vec<[u32; LANES]>,
    pub accumulators: Vec<[u32; LANES]>,
    pub condition: bool,
    /// The address of the next instruction.
    pub counter: u64,
}

/// Everything outside of a wavefront.
pub(super) struct Around<'a> {
    pub object: &'a Object,
    pub shared: &'a mut [u8],
    /// Looks up a live block of memory: beginning and end.
    pub block_of: &'a dyn Fn(usize) -> Option<(usize, usize)>,
    /// The block that was accessed last.
    pub last: Cell<(usize, usize)>,
    pub steps: &'a mut u64,
    pub arch: &'a str,
}

impl Wave {
    pub(super) fn exec(&self) -> u64 {
        self.scalar_64(EXEC)
    }

    pub(super) fn scalar_64(&self, first: u8) -> u64 {
        u64::from(self.scalars[usize::from(first)]) | u64::from(self.scalars[usize::from(first) + 1]) << 32
    }

    pub(super) fn set_scalar_64(&mut self, first: u8, value: u64) {
        self.scalars[usize::from(first)] = value as u32;
        self.scalars[usize::from(first) + 1] = (value >> 32) as u32;
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = usize> + use<> {
        let exec = self.exec();
        (0..LANES).filter(move |lane| exec >> lane & 1 == 1)
    }

    /// A source of `words` words, as a pattern.
    pub(super) fn read(&self, operand: &Operand, words: u8, lane: usize) -> Result<u64, String> {
        let pair = |low: u32, high: Option<u32>| u64::from(low) | u64::from(high.unwrap_or(0)) << 32;
        let two = words == 2 && operand.registers == 2;
        let register = |registers: &[[u32; LANES]], first: u16| {
            let first = usize::from(first);
            let low = registers.get(first).ok_or_else(|| format!("register {first} is not one of {}", registers.len()))?[lane];
            Ok(pair(low, two.then(|| registers[first + 1][lane])))
        };
        Ok(match operand.place {
            Place::Scalar(first) => pair(self.scalars[usize::from(first)], two.then(|| self.scalars[usize::from(first) + 1])),
            Place::Vector(first) => return register(&self.vectors, first),
            Place::Accumulation(first) => return register(&self.accumulators, first),
            Place::Whole(x) if words == 2 => x as u64,
            Place::Whole(x) => u64::from(x as u32),
            Place::Float(x) if words == 2 => x.to_bits(),
            Place::Float(x) => u64::from((x as f32).to_bits()),
            Place::Nothing => return Err("an operand is no register".to_owned()),
        })
    }

    /// A source of `words` words in all lanes.
    fn read_all(&self, operand: &Operand, words: u8) -> Result<[u64; LANES], String> {
        let mut all = [0; LANES];
        self.read_into(operand, words, &mut all)?;
        Ok(all)
    }

    fn read_into(&self, operand: &Operand, words: u8, all: &mut [u64; LANES]) -> Result<(), String> {
        let (registers, first) = match operand.place {
            Place::Vector(first) => (&self.vectors, usize::from(first)),
            Place::Accumulation(first) => (&self.accumulators, usize::from(first)),
            _ => {
                all.fill(self.read(operand, words, 0)?);
                return Ok(());
            }
        };
        let missing = || format!("there is no register {first}");
        all.iter_mut().zip(registers.get(first).ok_or_else(missing)?).for_each(|(x, low)| *x = u64::from(*low));
        if words == 2 && operand.registers == 2 {
            let high = registers.get(first + 1).ok_or_else(missing)?;
            all.iter_mut().zip(high).for_each(|(x, high)| *x |= u64::from(*high) << 32);
        }
        Ok(())
    }

    /// A source of a vector instruction by its type, with its modifiers, in all lanes.
    fn source(&self, operand: &Operand, kind: char) -> Result<[u64; LANES], String> {
        let mut all = [0; LANES];
        self.source_into(operand, kind, &mut all)?;
        Ok(all)
    }

    /// The same, without a copy.
    fn source_into(&self, operand: &Operand, kind: char, all: &mut [u64; LANES]) -> Result<(), String> {
        self.read_into(operand, if matches!(kind, 'q' | 'd') { 2 } else { 1 }, all)?;
        match operand.place {
            // The upper half of a number.
            Place::Whole(x) if kind == 'd' && !(-16..=64).contains(&x) => all.fill((x as u64) << 32),
            Place::Float(x) if kind == 'h' => all.fill(u64::from(half::f16::from_f64(x).to_bits())),
            _ => {}
        }
        if let Some(part) = operand.part {
            all.iter_mut().for_each(|bits| *bits = taken(*bits, part));
        }
        if matches!(kind, 'w' | 'h') {
            all.iter_mut().for_each(|bits| *bits &= 0xffff);
        }
        if !operand.absolute && !operand.negative {
            return Ok(());
        }
        let sign = match kind {
            'f' => 1 << 31,
            'd' => 1 << 63,
            'h' => 1 << 15,
            _ => return Err(format!("a sign is changed of a source that is no float: {operand:?}")),
        };
        let (keep, flip) = (if operand.absolute { !sign } else { u64::MAX }, if operand.negative { sign } else { 0 });
        all.iter_mut().for_each(|bits| *bits = *bits & keep ^ flip);
        Ok(())
    }

    /// Writes a result in the lanes that are switched on.
    fn write_all(&mut self, operand: &Operand, words: u8, results: &[u64; LANES]) -> Result<(), String> {
        let exec = self.exec();
        let (registers, first) = match operand.place {
            Place::Vector(first) => (&mut self.vectors, usize::from(first)),
            Place::Accumulation(first) => (&mut self.accumulators, usize::from(first)),
            _ => return Err("the destination is no vector register".to_owned()),
        };
        let to = registers.get_mut(first..first + usize::from(words)).ok_or_else(|| format!("there is no register {first}"))?;
        for (word, register) in to.iter_mut().enumerate() {
            for lane in 0..LANES {
                let x = (results[lane] >> (32 * word)) as u32;
                register[lane] = if exec >> lane & 1 == 1 { x } else { register[lane] };
            }
        }
        Ok(())
    }

    /// Writes the words of a vector register.
    pub(super) fn write(&mut self, operand: &Operand, lane: usize, words: &[u32]) -> Result<(), String> {
        let (registers, first) = match operand.place {
            Place::Vector(first) => (&mut self.vectors, first),
            Place::Accumulation(first) => (&mut self.accumulators, first),
            _ => return Err("the destination is no vector register".to_owned()),
        };
        let first = usize::from(first);
        let to = registers.get_mut(first..first + words.len()).ok_or_else(|| format!("there is no register {first}"))?;
        to.iter_mut().zip(words).for_each(|(register, word)| register[lane] = *word);
        Ok(())
    }

    /// Runs until the wavefront ends or comes to a barrier.
    pub(super) fn run(&mut self, around: &mut Around<'_>) -> Result<Stop, String> {
        let mut at = 0;
        loop {
            let instruction = around.object.instruction(self.counter, &mut at)?;
            *around.steps = around.steps.checked_sub(1).ok_or("it does not end")?;
            self.counter = instruction.next;
            let place = |reason: String| format!("{reason}: `{}` at {:#x}", instruction.text, instruction.address);
            match &instruction.action {
                Action::Barrier => return Ok(Stop::Barrier),
                Action::End => return Ok(Stop::End),
                Action::Nothing => {}
                Action::Unknown => return Err(place("an instruction is not known".to_owned())),
                Action::Branch(branch) => self.branch(instruction, *branch),
                Action::Scalar(scalar) => self.compute(instruction, scalar, around).map_err(place)?,
                Action::Matrix => self.multiply(instruction, around.arch).map_err(place)?,
                Action::Permute => self.permute(instruction).map_err(place)?,
                Action::Access(access) => self.access(instruction, access, around).map_err(place)?,
                _ => self.vector(instruction).map_err(place)?,
            }
        }
    }

    fn branch(&mut self, instruction: &Instruction, branch: Branch) {
        let taken = match branch {
            Branch::Always => true,
            Branch::Condition(set) => self.condition == set,
            Branch::VccZero(zero) => (self.scalar_64(VCC) == 0) == zero,
            Branch::ExecZero(zero) => (self.exec() == 0) == zero,
        };
        if taken {
            self.counter = instruction.target();
        }
    }

    fn compute(&mut self, instruction: &Instruction, scalar: &Scalar, around: &Around<'_>) -> Result<(), String> {
        let operands = &instruction.operands;
        let read = |i: usize| operands.get(i).map_or(Ok(0), |operand| self.read(operand, scalar.source, 0));
        let (a, b) = match scalar.form {
            Form::Compute => (read(1)?, read(2)?),
            Form::Compare | Form::InPlace => (read(0)?, read(1)?),
            Form::SaveExec => (self.exec(), read(1)?),
            Form::Counter => (around.object.memory.as_ptr() as u64 + instruction.next, 0),
        };
        let (result, condition) = (scalar.run)(a, b, self.condition);
        self.condition = condition.unwrap_or(self.condition);
        if scalar.form == Form::Compare {
            return Ok(());
        }
        let Place::Scalar(first) = operands[0].place else { return Err("the destination is no scalar register".to_owned()) };
        match scalar.form {
            Form::SaveExec => {
                self.set_scalar_64(first, self.exec());
                self.set_scalar_64(EXEC, result);
            }
            _ if scalar.result == 2 => self.set_scalar_64(first, result),
            _ => self.scalars[usize::from(first)] = result as u32,
        }
        Ok(())
    }

    fn vector(&mut self, instruction: &Instruction) -> Result<(), String> {
        match &instruction.action {
            Action::Elementwise(elementwise) => self.elementwise(instruction, elementwise),
            Action::Compare(comparison) => self.compare(instruction, *comparison),
            Action::Select => self.select(instruction),
            Action::Carry { subtract, reversed, carry_in } => self.carry(instruction, *subtract, *reversed, *carry_in),
            Action::MultiplyWide { signed } => self.multiply_wide(instruction, *signed),
            Action::ReadLane { first } => self.read_lane(instruction, *first),
            Action::WriteLane => {
                let lane = self.read(&instruction.operands[2], 1, 0)? as usize % LANES;
                let word = self.read(&instruction.operands[1], 1, 0)? as u32;
                self.write(&instruction.operands[0], lane, &[word])
            }
            Action::CountBelow { high } => self.count_below(instruction, *high),
            Action::DivideScale { wide } => self.divide_scale(instruction, *wide),
            Action::DivideFused { wide } => self.divide_fused(instruction, *wide),
            Action::Packed(run) => self.packed(instruction, *run),
            Action::PackedMove => self.packed_move(instruction),
            _ => Err("an instruction is of no kind".to_owned()),
        }
    }

    fn elementwise(&mut self, instruction: &Instruction, elementwise: &Elementwise) -> Result<(), String> {
        let operands = &instruction.operands;
        let mut sources = [[0; LANES]; 3];
        for (i, kind) in elementwise.sources.chars().enumerate() {
            let operand = match operands.get(i + 1) {
                Some(operand) => operand,
                None if elementwise.accumulates => &operands[0],
                None => return Err("an operand is missing".to_owned()),
            };
            self.source_into(operand, kind, &mut sources[i])?;
        }
        let [a, b, c] = &sources;
        let mut results = [0; LANES];
        for lane in 0..LANES {
            results[lane] = (elementwise.run)(a[lane], b[lane], c[lane]);
        }
        if let Some(part) = instruction.part {
            let before = self.read_all(&operands[0], 1)?;
            let unused = instruction.line.value("dst_unused");
            results = std::array::from_fn(|lane| placed(results[lane], part, unused, before[lane]));
        }
        self.write_all(&operands[0], elementwise.words, &results)
    }

    fn compare(&mut self, instruction: &Instruction, comparison: Comparison) -> Result<(), String> {
        let operands = &instruction.operands;
        let (a, b) = (self.source(&operands[1], comparison.of)?, self.source(&operands[2], comparison.of)?);
        let mask = self.lanes().map(|lane| u64::from((comparison.holds)(a[lane], b[lane]) != comparison.negated) << lane).sum();
        self.set_mask(&operands[0], mask)
    }

    fn set_mask(&mut self, operand: &Operand, mask: u64) -> Result<(), String> {
        let Place::Scalar(first) = operand.place else { return Err("the destination is no pair of scalar registers".to_owned()) };
        self.set_scalar_64(first, mask);
        Ok(())
    }

    /// A lane mask: `vcc` where no operand says which.
    fn mask(&self, operand: Option<&Operand>) -> Result<u64, String> {
        operand.map_or(Ok(self.scalar_64(VCC)), |operand| self.read(operand, 2, 0))
    }

    fn select(&mut self, instruction: &Instruction) -> Result<(), String> {
        let operands = &instruction.operands;
        let mask = self.mask(operands.get(3))?;
        let (otherwise, chosen) = (self.source(&operands[1], 'f')?, self.source(&operands[2], 'f')?);
        let results = std::array::from_fn(|lane| if mask >> lane & 1 == 1 { chosen[lane] } else { otherwise[lane] });
        self.write_all(&operands[0], 1, &results)
    }

    fn carry(&mut self, instruction: &Instruction, subtract: bool, reversed: bool, carry_in: bool) -> Result<(), String> {
        let operands = &instruction.operands;
        let before = if carry_in { self.mask(operands.get(4))? } else { 0 };
        let (mut a, mut b) = (self.source(&operands[2], 'u')?, self.source(&operands[3], 'u')?);
        if reversed {
            (a, b) = (b, a);
        }
        let (mut after, mut results) = (0, [0; LANES]);
        for lane in self.lanes() {
            let (a, b) = (a[lane], b[lane] + (before >> lane & 1));
            let (x, carries) = if subtract { (a.wrapping_sub(b), b > a) } else { (a + b, a + b > 0xffff_ffff) };
            after |= u64::from(carries) << lane;
            results[lane] = x;
        }
        self.write_all(&operands[0], 1, &results)?;
        self.set_mask(&operands[1], after)
    }

    fn multiply_wide(&mut self, instruction: &Instruction, signed: bool) -> Result<(), String> {
        let operands = &instruction.operands;
        let (a, b, c) = (self.source(&operands[2], 'u')?, self.source(&operands[3], 'u')?, self.source(&operands[4], 'q')?);
        let (mut after, mut results) = (0, [0; LANES]);
        for lane in self.lanes() {
            let (sum, carries) = if signed {
                let (sum, overflows) = (i64::from(a[lane] as i32) * i64::from(b[lane] as i32)).overflowing_add(c[lane] as i64);
                (sum as u64, overflows)
            } else {
                (a[lane] * b[lane]).overflowing_add(c[lane])
            };
            after |= u64::from(carries) << lane;
            results[lane] = sum;
        }
        self.write_all(&operands[0], 2, &results)?;
        self.set_mask(&operands[1], after)
    }

    fn read_lane(&mut self, instruction: &Instruction, first: bool) -> Result<(), String> {
        let operands = &instruction.operands;
        let lane = if first { self.lanes().next().unwrap_or(0) } else { self.read(&operands[2], 1, 0)? as usize % LANES };
        let word = self.read(&operands[1], 1, lane)? as u32;
        let Place::Scalar(to) = operands[0].place else { return Err("the destination is no scalar register".to_owned()) };
        self.scalars[usize::from(to)] = word;
        Ok(())
    }

    fn count_below(&mut self, instruction: &Instruction, high: bool) -> Result<(), String> {
        let operands = &instruction.operands;
        let (masks, bases) = (self.source(&operands[1], 'u')?, self.source(&operands[2], 'u')?);
        let results = std::array::from_fn(|lane| {
            let below = (1u64 << lane) - 1;
            let below = if high { below >> 32 } else { below & 0xffff_ffff };
            u64::from((masks[lane] & below).count_ones()) + bases[lane]
        });
        self.write_all(&operands[0], 1, &results)
    }

    /// v_div_scale: the denominator or the numerator, scaled so that no step of a division leaves the range, and lanes whose quotient is to be scaled back.
    fn divide_scale(&mut self, instruction: &Instruction, wide: bool) -> Result<(), String> {
        let (operands, kind) = (&instruction.operands, if wide { 'd' } else { 'f' });
        let (x, below, above) = (self.source(&operands[2], kind)?, self.source(&operands[3], kind)?, self.source(&operands[4], kind)?);
        let (mut back, mut results) = (0, [0; LANES]);
        for lane in self.lanes() {
            let (scaled, scales) = if wide {
                let [x, b, a] = [x, below, above].map(|all| f64::from_bits(all[lane]));
                let (scaled, scales) = scale(x, b, a, exponent_f64(a) - exponent_f64(b) >= 768, exponent_f64(a) <= 53, f64::MIN_POSITIVE);
                (ldexp(x, 128 * scaled).to_bits(), scales)
            } else {
                let [x, b, a] = [x, below, above].map(|all| f32::from_bits(all[lane] as u32));
                let far = exponent_f32(a) - exponent_f32(b) >= 96;
                let (scaled, scales) =
                    scale(f64::from(x), f64::from(b), f64::from(a), far, exponent_f32(a) <= 23, f64::from(f32::MIN_POSITIVE));
                (u64::from((ldexp(f64::from(x), 64 * scaled) as f32).to_bits()), scales)
            };
            back |= u64::from(scales) << lane;
            results[lane] = scaled;
        }
        self.write_all(&operands[0], if wide { 2 } else { 1 }, &results)?;
        self.set_mask(&operands[1], back)
    }

    /// v_div_fmas: the last step of a division, scaled back. A large third source is a quotient whose denominator was scaled up, a small one a quotient whose numerator was.
    fn divide_fused(&mut self, instruction: &Instruction, wide: bool) -> Result<(), String> {
        let (operands, kind) = (&instruction.operands, if wide { 'd' } else { 'f' });
        let vcc = self.scalar_64(VCC);
        let (a, b, c) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?, self.source(&operands[3], kind)?);
        let results = std::array::from_fn(|lane| {
            let up = vcc >> lane & 1 == 1;
            if wide {
                let [a, b, c] = [a, b, c].map(|all| f64::from_bits(all[lane]));
                let by = if exponent_f64(c) > 1023 { 128 } else { -128 };
                let x = a.mul_add(b, c);
                return if up { ldexp(x, by) } else { x }.to_bits();
            }
            let [a, b, c] = [a, b, c].map(|all| f32::from_bits(all[lane] as u32));
            let by = if exponent_f32(c) > 127 { 64 } else { -64 };
            let x = a.mul_add(b, c);
            u64::from(if up { x * 2f32.powi(by) } else { x }.to_bits())
        });
        self.write_all(&operands[0], if wide { 2 } else { 1 }, &results)
    }

    /// Whatever lanes are switched off, all take part.
    fn multiply(&mut self, instruction: &Instruction, arch: &str) -> Result<(), String> {
        let (operands, line) = (&instruction.operands, &instruction.line);
        let modifiers = ["cbsz", "abid", "blgp"].map(|name| line.number(name).unwrap_or(0) as u32);
        if line.modifiers.iter().any(|m| m.starts_with("neg")) {
            return Err("modifiers of its signs are not known".to_owned());
        }
        // D, A, B, C of each lane.
        let mut registers = Vec::new();
        for lane in 0..LANES {
            let mut of_lane = [[0u32; 32]; 4];
            for (operand, words) in operands.iter().zip(&mut of_lane) {
                for (i, word) in words[..usize::from(operand.registers)].iter_mut().enumerate() {
                    let one = Operand { place: operand.place.after(i), registers: 1, ..*operand };
                    *word = self.read(&one, 1, lane)? as u32;
                }
                if operand.registers == 0 {
                    words.fill(self.read(operand, 1, lane)? as u32);
                }
            }
            registers.push(of_lane);
        }
        let address = |words: &mut [u32; 32]| words.as_mut_ptr() as usize;
        let lanes: Vec<[usize; 4]> = registers.iter_mut().map(|[d, a, b, c]| [address(a), address(b), address(c), address(d)]).collect();
        // SAFETY: each operand has 32 words, the most registers that an instruction has of one, and they are this function's own.
        unsafe { crate::exec::multiply(arch, &line.mnemonic, modifiers, &lanes)? };
        for (lane, of_lane) in registers.iter().enumerate() {
            self.write(&operands[0], lane, &of_lane[0][..usize::from(operands[0].registers)])?;
        }
        Ok(())
    }

    fn packed(&mut self, instruction: &Instruction, run: fn([f32; 3]) -> f32) -> Result<(), String> {
        let operands = &instruction.operands;
        let mut results = [0; LANES];
        for (word, (upper, negative)) in instruction.halves.iter().enumerate() {
            let mut sources = [[0; LANES]; 3];
            for (i, operand) in operands[1..].iter().enumerate() {
                sources[i] = self.half(operand, upper[i])?;
                let flip = if negative[i] { 1 << 31 } else { 0 };
                sources[i].iter_mut().for_each(|x| *x ^= flip);
            }
            for (lane, result) in results.iter_mut().enumerate() {
                *result |= u64::from(run(sources.map(|all| f32::from_bits(all[lane] as u32))).to_bits()) << (32 * word);
            }
        }
        self.write_all(&operands[0], 2, &results)
    }

    /// A register of a pair.
    fn half(&self, operand: &Operand, upper: bool) -> Result<[u64; LANES], String> {
        if operand.registers < 2 {
            if upper && operand.registers == 0 {
                return Err("the upper half of a constant".to_owned());
            }
            return self.read_all(operand, 1);
        }
        Ok(self.read_all(operand, 2)?.map(|pair| if upper { pair >> 32 } else { pair & 0xffff_ffff }))
    }

    fn packed_move(&mut self, instruction: &Instruction) -> Result<(), String> {
        let operands = &instruction.operands;
        let [low, high] = [0, 1].map(|i| self.half(&operands[1 + i], instruction.halves[0].0[i]));
        let (low, high) = (low?, high?);
        self.write_all(&operands[0], 2, &std::array::from_fn(|lane| low[lane] | high[lane] << 32))
    }
}

/// A part of a source, and its sign where that is asked for.
fn taken(bits: u64, part: Part) -> u64 {
    let bits = bits >> part.shift & (u64::MAX >> (64 - part.bits));
    if !part.signed || part.bits == 32 {
        return bits;
    }
    let up = 32 - u32::from(part.bits);
    u64::from((((bits as u32) << up).cast_signed() >> up).cast_unsigned())
}

/// A result in a part of its register; the rest is 0, or its sign, or what it was.
fn placed(x: u64, part: Part, unused: Option<&str>, before: u64) -> u64 {
    let mask = (1u64 << part.bits) - 1;
    let x = x & mask;
    match unused {
        Some("UNUSED_PRESERVE") => before & !(mask << part.shift) | x << part.shift,
        Some("UNUSED_SEXT") if x >> (part.bits - 1) & 1 == 1 => (x | !mask) << part.shift & 0xffff_ffff,
        _ => x << part.shift,
    }
}

/// How v_div_scale scales `x`, which is the denominator or the numerator: by a power, up (1) or down (-1); and whether the quotient is scaled back.
fn scale(x: f64, below: f64, above: f64, far: bool, tiny: bool, least: f64) -> (i32, bool) {
    let subnormal = |x: f64| x != 0.0 && x.abs() < least;
    let (of_denominator, of_numerator) = (i32::from(x == below), i32::from(x == above));
    match () {
        _ if above == 0.0 || below == 0.0 || !above.is_finite() || !below.is_finite() => (0, false),
        _ if far => (of_denominator, true),
        _ if subnormal(below) => (1, false),
        // Down, though the manuals say up, by which the denominator would leave the range.
        _ if subnormal(1.0 / below) && subnormal(above / below) => (-of_denominator, true),
        _ if subnormal(1.0 / below) => (-1, false),
        _ if subnormal(above / below) => (of_numerator, true),
        _ if tiny => (1, false),
        _ => (0, false),
    }
}
