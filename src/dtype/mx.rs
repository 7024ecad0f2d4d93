//! OCP microscaling (MX) blocks: 32 elements under one e8m0 scale, as "OCP Microscaling Formats (MX) Specification"
//! v1.0 describes them.
//!
//! An element stands for (its own value) x (the scale of its block), an exact f64 in every format, so a comparison of MX
//! tensors runs on f64. Elements and scales are separate arrays, elements stored as their [`DType`] is (fp6 in a byte each,
//! fp4 two to a byte). Only whole blocks are accepted: how a tensor's rows are padded is the producer's business.

use super::convert::{decode_f64, encode_from_f64};
use super::float_format::{exp2, split};
use super::{DType, Overflow, Rounding};
use crate::error::{Error, Result};

/// Elements under one scale.
pub const BLOCK: usize = 32;

/// The e8m0 code that makes a whole block NaN.
const NAN_SCALE: u8 = 0xff;

/// How the scale of a block is computed from the largest magnitude of its values, m. With E the exponent of the largest power of two among the element values and M the largest of
/// these: each rule gives 2^e, with e held within -127 and 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ScaleRule {
    /// `floor`, the specification's: e = floor(log2 m) - E. Scaled values between M and 2^(E + 1) then become M.
    #[default]
    Floor,
    /// `rceil`, as NVIDIA's cuBLAS and Transformer Engine do: e = ceil(log2(m / M)), of the exact quotient. Nothing saturates, unless e was limited.
    Rceil,
    /// `even`, as AMD's AITER and Quark do: `floor` of m after m was rounded to as many fraction bits as the elements have, halves upward.
    Even,
}

impl ScaleRule {
    /// Every rule.
    pub const ALL: [ScaleRule; 3] = [ScaleRule::Floor, ScaleRule::Rceil, ScaleRule::Even];

    /// The name by which torchao knows it as well.
    pub const fn name(self) -> &'static str {
        match self {
            ScaleRule::Floor => "floor",
            ScaleRule::Rceil => "rceil",
            ScaleRule::Even => "even",
        }
    }
}

impl std::fmt::Display for ScaleRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for ScaleRule {
    type Err = Error;

    fn from_str(s: &str) -> Result<ScaleRule> {
        ScaleRule::ALL.into_iter().find(|rule| rule.name() == s).ok_or_else(|| Error::InvalidArgument {
            what: "the rule of MX scales",
            value: s.to_owned(),
            limit: ScaleRule::ALL.map(ScaleRule::name).join(", "),
        })
    }
}

/// An MX format, named by the format of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MxFormat {
    element: DType,
}

impl MxFormat {
    /// MXFP8 with e4m3 elements.
    pub const FP8_E4M3: MxFormat = MxFormat { element: DType::F8E4M3 };
    /// MXFP8 with e5m2 elements.
    pub const FP8_E5M2: MxFormat = MxFormat { element: DType::F8E5M2 };
    /// MXFP6 with e2m3 elements.
    pub const FP6_E2M3: MxFormat = MxFormat { element: DType::F6E2M3 };
    /// MXFP6 with e3m2 elements.
    pub const FP6_E3M2: MxFormat = MxFormat { element: DType::F6E3M2 };
    /// MXFP4: e2m1 elements.
    pub const FP4: MxFormat = MxFormat { element: DType::F4E2M1 };
    /// MXINT8: two's complement bytes that count 64ths.
    pub const INT8: MxFormat = MxFormat { element: DType::I8 };
    /// Every MX format of the specification.
    pub const ALL: [MxFormat; 6] =
        [MxFormat::FP8_E4M3, MxFormat::FP8_E5M2, MxFormat::FP6_E2M3, MxFormat::FP6_E3M2, MxFormat::FP4, MxFormat::INT8];

    /// The MX format with these elements.
    ///
    /// # Errors
    /// [`Error::WrongDType`] when the specification has none.
    pub fn new(element: DType) -> Result<MxFormat> {
        MxFormat::ALL.into_iter().find(|f| f.element == element).ok_or_else(|| Error::WrongDType {
            what: "element of an MX block".to_owned(),
            expected: MxFormat::ALL.map(|f| f.element.name()).join(", "),
            found: element.name().to_owned(),
        })
    }

    /// The storage format of the elements.
    pub const fn element(self) -> DType {
        self.element
    }

    /// Exponent of the largest power of two among the element values.
    pub const fn max_exponent(self) -> i32 {
        match self.element.float_format() {
            Some(f) => f.max_exponent(),
            None => 0,
        }
    }

    /// The largest element value: int8 elements stay within [-127/64, 127/64], so that negation is exact.
    pub fn max_value(self) -> f64 {
        match self.element.float_format() {
            Some(f) => f.max_finite(),
            None => 127.0 / 64.0,
        }
    }

    /// What the number stored in an element is multiplied by, apart from the scale of the block: 2^-6 for int8, else 1.
    const fn implied_exponent(self) -> i32 {
        match self.element {
            DType::I8 => -6,
            _ => 0,
        }
    }

    /// The values of whole blocks: `out.len()` elements of `elements`, block b scaled by `scales[b]`. Exact.
    ///
    /// A NaN scale makes its whole block NaN. NaN and infinite elements (fp8) stay what they are.
    ///
    /// # Errors
    /// [`Error::Length`] when `out` is not whole blocks, or a slice does not have the corresponding length.
    pub fn decode(self, elements: &[u8], scales: &[u8], out: &mut [f64]) -> Result<()> {
        self.check(out.len(), elements.len(), scales.len())?;
        decode_f64(self.element, elements, out);
        for (block, &scale) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(scales) {
            let factor = DType::F8E8M0.decode(u64::from(scale)) * exp2(self.implied_exponent());
            for v in block {
                *v *= factor;
            }
        }
        Ok(())
    }

    /// Quantises whole blocks by the specification's rule, [`ScaleRule::Floor`].
    ///
    /// The scale is 2^(floor(log2(max |v|)) - [`max_exponent`](Self::max_exponent)), clamped to the range of e8m0; elements
    /// are v / scale, rounded to nearest even and saturated. (So the largest values of a block may saturate: with e4m3
    /// elements they lie in [256, 512) and those above 448 become 448.)
    ///
    /// Where the specification leaves a choice: a block of zeros gets the scale 2^-127; a block with a NaN or an infinity gets
    /// the NaN scale and zero elements; int8 elements stay in [-127, 127], so that negation is exact.
    ///
    /// # Errors
    /// [`Error::Length`] when `values` is not whole blocks, or a slice does not have the corresponding length.
    pub fn encode(self, values: &[f64], elements: &mut [u8], scales: &mut [u8]) -> Result<()> {
        self.encode_blocks(ScaleRule::Floor, values, elements, scales)
    }

    /// [`encode`](Self::encode) for f32 values.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_f32(self, values: &[f32], elements: &mut [u8], scales: &mut [u8]) -> Result<()> {
        self.encode_blocks(ScaleRule::Floor, values, elements, scales)
    }

    /// [`encode`](Self::encode) with scales by another rule.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_by(self, rule: ScaleRule, values: &[f64], elements: &mut [u8], scales: &mut [u8]) -> Result<()> {
        self.encode_blocks(rule, values, elements, scales)
    }

    fn encode_blocks<T: Copy + Into<f64>>(self, rule: ScaleRule, values: &[T], elements: &mut [u8], scales: &mut [u8]) -> Result<()> {
        self.check(values.len(), elements.len(), scales.len())?;
        let (blocks, _) = values.as_chunks::<BLOCK>();
        let bytes = BLOCK * self.element.bits() / 8;
        for ((block, out), scale) in blocks.iter().zip(elements.chunks_exact_mut(bytes)).zip(scales) {
            *scale = self.encode_block(rule, &block.map(T::into), out);
        }
        Ok(())
    }

    /// Writes the elements of a block and returns its scale.
    fn encode_block(self, rule: ScaleRule, block: &[f64; BLOCK], elements: &mut [u8]) -> u8 {
        if block.iter().any(|v| !v.is_finite()) {
            elements.fill(0);
            return NAN_SCALE;
        }
        let largest = block.iter().fold(0f64, |m, v| m.max(v.abs()));
        let exponent = self.scale_exponent(rule, largest);
        // Dividing by a power of two is exact, or so small that the element is zero.
        let scaled = block.map(|v| {
            let v = v * exp2(-exponent) * exp2(-self.implied_exponent());
            if self.element == DType::I8 { v.clamp(-127.0, 127.0) } else { v }
        });
        encode_from_f64(self.element, &scaled, Rounding::NearestEven, Overflow::Saturate, elements);
        (exponent + 127) as u8
    }

    /// The exponent of the scale of a block whose largest magnitude is this one.
    fn scale_exponent(self, rule: ScaleRule, largest: f64) -> i32 {
        // In units of 2^-52 of the power of two at or below it, as those of e8m0 are; of zero any will do, as the scale is the least one.
        let (significand, exponent) = split(largest);
        let next_power = match rule {
            ScaleRule::Floor => false,
            ScaleRule::Rceil => significand > split(self.max_value()).0,
            ScaleRule::Even => {
                let fraction_bits = self.element.float_format().map_or(6, |f| f.mantissa_bits);
                significand + (1 << (51 - fraction_bits)) >= 1 << 53
            }
        };
        (exponent + i32::from(next_power) - self.max_exponent()).clamp(-127, 127)
    }

    fn check(self, values: usize, elements: usize, scales: usize) -> Result<()> {
        let blocks = values.div_ceil(BLOCK);
        for (what, expected, found) in [
            ("values of MX blocks (32 each)", blocks * BLOCK, values),
            ("element bytes of MX blocks", blocks * BLOCK * self.element.bits() / 8, elements),
            ("scales of MX blocks", blocks, scales),
        ] {
            if expected != found {
                return Err(Error::Length { what, expected, found });
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for MxFormat {
    /// `mx` and the name of the elements, such as `mxf4e2m1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("mx{}", self.element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(format: MxFormat, values: &[f64; BLOCK]) -> (Vec<u8>, u8) {
        let mut elements = vec![0xee; BLOCK * format.element().bits() / 8];
        let mut scale = [0xee];
        format.encode(values, &mut elements, &mut scale).unwrap();
        let mut again = elements.clone();
        let narrow = values.map(|v| v as f32);
        if narrow.map(f64::from) == *values {
            format.encode_f32(&narrow, &mut again, &mut scale).unwrap();
            assert_eq!(elements, again, "{format}: f32 and f64 differ");
        }
        (elements, scale[0])
    }

    fn decode(format: MxFormat, elements: &[u8], scale: u8) -> [f64; BLOCK] {
        let mut out = [0.5; BLOCK];
        format.decode(elements, &[scale], &mut out).unwrap();
        out
    }

    fn block(head: &[f64]) -> [f64; BLOCK] {
        std::array::from_fn(|i| head.get(i).copied().unwrap_or(0.0))
    }

    #[test]
    fn hand_computed_blocks() {
        type Case<'a> = (MxFormat, &'a [f64], u8, &'a [f64], &'a str);
        // (format, values, scale code, what comes back, why)
        let cases: &[Case] = &[
            (MxFormat::FP4, &[6.0, -3.0, 0.5, 0.25, 0.75, 5.0], 127, &[6.0, -3.0, 0.5, 0.0, 1.0, 4.0], "scale 1; ties to even"),
            (MxFormat::FP4, &[7.9, 1.0], 127, &[6.0, 1.0], "7.9 has exponent 2: saturates at 6"),
            (MxFormat::FP4, &[8.0, 1.0], 128, &[8.0, 1.0], "8 has exponent 3: scale 2"),
            (MxFormat::FP8_E4M3, &[511.0, -1.0, 2f64.powi(-9)], 127, &[448.0, -1.0, 2f64.powi(-9)], "clamped at 448, subnormals kept"),
            (MxFormat::FP8_E4M3, &[1.0, 0.3], 119, &[1.0, 0.3125], "scale 2^-8; 76.8 is 80 with 3 fraction bits"),
            (MxFormat::FP8_E5M2, &[-65536.0], 128, &[-65536.0], "exponent 16 - 15"),
            (MxFormat::FP6_E2M3, &[7.75, 0.125], 127, &[7.5, 0.125], "largest 7.5"),
            (MxFormat::FP6_E3M2, &[30.0, 0.0625], 127, &[28.0, 0.0625], "largest 28"),
            (
                MxFormat::INT8,
                &[1.0, -1.999, 1.0 / 64.0, 3.0 / 128.0],
                127,
                &[1.0, -127.0 / 64.0, 1.0 / 64.0, 2.0 / 64.0],
                "64ths; -127 at most",
            ),
            (MxFormat::INT8, &[0.0], 0, &[0.0], "zeros: least scale"),
            (MxFormat::FP4, &[2f64.powi(-140)], 0, &[0.0], "below the least scale"),
            (MxFormat::FP8_E5M2, &[1e300, 2f64.powi(127)], 254, &[57344.0 * 2f64.powi(127), 2f64.powi(127)], "largest scale, saturated"),
        ];
        for &(format, values, scale, want, why) in cases {
            let (elements, got_scale) = encode(format, &block(values));
            assert_eq!(got_scale, scale, "{format} {values:?}: scale ({why})");
            assert_eq!(decode(format, &elements, got_scale), block(want), "{format} {values:?} ({why})");
        }
    }

    #[test]
    fn rules_of_scales_differ_near_the_largest_element() {
        type Case<'a> = (MxFormat, f64, [u8; 3], &'a str);
        // (format, largest magnitude, codes of floor, rceil and even, why)
        let cases: &[Case] = &[
            (MxFormat::FP4, 6.0, [127, 127, 127], "the largest element"),
            (MxFormat::FP4, 6.5, [127, 128, 127], "beyond it: 6.5 / 6 is more than 1"),
            (MxFormat::FP4, 7.0, [127, 128, 128], "halfway from 6 to 8: even goes on"),
            (MxFormat::FP4, 8.0, [128, 128, 128], "4 x 2"),
            (MxFormat::FP8_E4M3, 448.0, [127, 127, 127], "the largest element"),
            (MxFormat::FP8_E4M3, 480.0, [127, 128, 127], "three fraction bits hold it, e4m3 does not"),
            (MxFormat::FP8_E4M3, 496.0, [127, 128, 128], "halfway from 480 to 512"),
            (MxFormat::INT8, 127.0 / 64.0, [127, 127, 127], "the largest element"),
            (MxFormat::INT8, 127.25 / 64.0, [127, 128, 127], "beyond it"),
            (MxFormat::INT8, 127.5 / 64.0, [127, 128, 128], "halfway to 128"),
            (MxFormat::FP4, 2f64.powi(-1074), [0, 0, 0], "the least f64: the least scale"),
            (MxFormat::FP4, f64::MAX, [254, 254, 254], "the largest scale, which saturates by every rule"),
            (MxFormat::FP4, 0.0, [0, 0, 0], "zeros"),
        ];
        for &(format, largest, want, why) in cases {
            let found = ScaleRule::ALL.map(|rule| {
                let (mut elements, mut scale) = (vec![0; BLOCK * format.element().bits() / 8], [0]);
                format.encode_by(rule, &block(&[0.1 * largest, -largest]), &mut elements, &mut scale).unwrap();
                scale[0]
            });
            assert_eq!(found, want, "{format} {largest:e}: {why}");
        }
        assert_eq!(ScaleRule::ALL.map(|rule| rule.to_string().parse::<ScaleRule>().unwrap()), ScaleRule::ALL);
        let e = "ceil".parse::<ScaleRule>().unwrap_err().to_string();
        assert_eq!(e, "the rule of MX scales cannot be ceil: floor, rceil, even");
    }

    #[test]
    fn non_finite_inputs_make_a_nan_block() {
        for format in MxFormat::ALL {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let (elements, scale) = encode(format, &block(&[1.0, bad]));
                assert_eq!(scale, NAN_SCALE, "{format}, {bad}");
                assert!(decode(format, &elements, scale).iter().all(|v| v.is_nan()), "{format}, {bad}");
            }
        }
    }

    #[test]
    fn special_elements_stay_special() {
        let mut e5m2 = [0u8; BLOCK];
        e5m2[..3].copy_from_slice(&[0x7c, 0xfc, 0x7e]);
        let out = decode(MxFormat::FP8_E5M2, &e5m2, 0);
        assert!(out[0] == f64::INFINITY && out[1] == f64::NEG_INFINITY && out[2].is_nan() && out[3] == 0.0);
        let mut int8 = [0u8; BLOCK];
        int8[0] = 0x80;
        assert_eq!(decode(MxFormat::INT8, &int8, 127)[0], -2.0);
    }

    #[test]
    fn decoding_is_exact_for_every_element_and_scale() {
        for format in MxFormat::ALL {
            let codes = 1usize << format.element().bits();
            for first in (0..codes).step_by(BLOCK) {
                let mut elements = vec![0; BLOCK * format.element().bits() / 8];
                for i in 0..BLOCK {
                    format.element().store_bits(&mut elements, i, (first + i) as u64);
                }
                let decoded = |scale| decode(format, &elements, scale).into_iter().enumerate().map(move |(i, v)| (scale, i, v));
                for (scale, i, v) in [0u8, 1, 126, 127, 128, 254].into_iter().flat_map(decoded) {
                    let unit = if format == MxFormat::INT8 { 1.0 / 64.0 } else { 1.0 };
                    let element = format.element().decode(format.element().load_bits(&elements, i));
                    // Undone by the reciprocal, so nothing was rounded.
                    let back = v / 2f64.powi(i32::from(scale) - 127) / unit;
                    assert!(back == element || back.is_nan() && element.is_nan(), "{format} {element} scale {scale}: {v}");
                }
            }
        }
    }

    #[test]
    fn wrong_lengths_are_errors() {
        let format = MxFormat::FP4;
        // (values, element bytes, scales, the message's beginning)
        for (values, elements, scales, want) in [
            (31, 16, 1, "values of MX blocks (32 each): expected 32, found 31"),
            (33, 32, 2, "values of MX blocks (32 each): expected 64, found 33"),
            (32, 32, 1, "element bytes of MX blocks: expected 16, found 32"),
            (64, 32, 1, "scales of MX blocks: expected 2, found 1"),
        ] {
            let (mut e, mut s) = (vec![0; elements], vec![0; scales]);
            let decoded = format.decode(&e, &s, &mut vec![0.0; values]).unwrap_err();
            let encoded = format.encode(&vec![0.0; values], &mut e, &mut s).unwrap_err();
            let encoded_f32 = format.encode_f32(&vec![0.0; values], &mut e, &mut s).unwrap_err();
            assert_eq!([decoded, encoded, encoded_f32].map(|e| e.to_string()), [want; 3]);
        }
        assert!(format.decode(&[], &[], &mut []).is_ok(), "no blocks are whole blocks");
    }

    #[test]
    fn only_the_specified_elements() {
        for dtype in DType::ALL {
            match MxFormat::new(dtype) {
                Ok(f) => assert!(MxFormat::ALL.contains(&f) && f.element() == dtype),
                Err(e) => assert!(e.to_string().starts_with("element of an MX block: expected dtype f8e4m3, "), "{e}"),
            }
        }
        assert_eq!(MxFormat::ALL.map(MxFormat::max_exponent), [8, 15, 2, 4, 2, 0]);
        assert_eq!(MxFormat::FP4.to_string(), "mxf4e2m1");
    }
}
