//! Parameters at their limits, and what kernels read of them.

use super::*;

/// A limit is itself allowed, and what lies beyond it is not.
#[test]
fn parameters_at_their_limits() {
    use DType::{F8E4M3, F8E8M0, F16, F32, F64, I8, U8};
    let square = Layout::contiguous(&[2, 2]).unwrap();
    for (text, dtype, reason) in [
        ("int:-2048,2048", F16, "the whole numbers of the format"),
        ("int:3,3", F16, "one number"),
        ("uniform:0,3.4028234663852886e38", F32, "as wide as the arithmetic"),
        ("uniform:0,1.7976931348623157e308", F64, "as wide as the arithmetic"),
        ("normal:1,0", F32, "no spread"),
        ("constant:inf", F16, "the format has infinities"),
        ("constant:-inf", F32, "of either sign"),
        ("constant:nan", F8E4M3, "the format has NaN"),
        ("constant:-128", I8, "the least number"),
        ("diagonal:1", F32, "two dimensions are enough"),
        ("sequential:1", F32, "the last dimension"),
        ("checkerboard:-127", I8, "both signs fit"),
        ("monotonic:9,-1", U8, "saturates at zero"),
        ("monotonic:1,0", F8E8M0, "does not fall"),
        ("exact:9,4096,4096,f32,a", F32, "one product fills the accumulator"),
        ("exact:9,1,127,i8,a", F16, "the largest i8"),
        ("exact:9,3,85,u8,b", F16, "the largest u8"),
        ("exact:9,7,1,f6e2m3,a", F16, "the largest whole number below 7.5"),
        ("exact:9,16,1,f32,a", F8E4M3, "the largest number up to which the format has every whole number"),
        ("exact:16777216,1,1,f32,a", F8E8M0, "as many products as need no zeros"),
        ("crand:-3.4028234663852886e38,0", F64, "the least number of f32"),
        ("crand:0,3.4028234663852886e38", F64, "the largest number of f32"),
        ("crand:0,1/seed=4294967295", F32, "the largest seed of srand"),
        ("uniform:0,1/special=1", F32, "every element"),
    ] {
        let found = kernel_params(&text.parse().unwrap(), dtype, &square);
        assert!(found.is_ok(), "{text} {dtype}: {found:?}, although {reason}");
    }
    for (text, dtype, part) in [
        ("int:-2049,0", F16, "only from -2048 to 2048"),
        ("int:0,2049", F16, "only from -2048 to 2048"),
        ("uniform:-1e308,1e308", F64, "max - min must not exceed"),
        ("normal:0,inf", F32, "must be finite and not negative"),
        ("constant:70000", F16, "f16 holds"),
        ("constant:-129", I8, "i8 holds"),
        ("checkerboard:-128", I8, "i8 holds"),
        ("monotonic:0,inf", F32, "must be finite"),
        ("monotonic:4,-1", F8E8M0, "negative"),
        ("exact:9,4097,4096,f32,a", F32, "one product at most 16777216"),
        ("exact:1,16,8,i8,a", F16, "one product at most 127"),
        ("exact:9,8,1,f6e2m3,a", F16, "one product at most 7"),
        ("exact:9,256,1,u8,b", F16, "one product at most 255"),
        ("exact:9,0,1,f32,a", F32, "at least 1"),
        ("exact:9,1,0,f32,a", F32, "at least 1"),
        ("exact:9,17,1,f32,a", F8E4M3, "only up to 16"),
        ("exact:16777217,1,1,f32,a", F8E8M0, "has a zero"),
        ("crand:-3.5e38,0", F64, "crand computes in f32"),
        ("crand:0,3.5e38", F64, "crand computes in f32"),
    ] {
        let message = kernel_params(&text.parse().unwrap(), dtype, &square).unwrap_err().to_string();
        assert!(message.contains(part), "{text} {dtype}: {message}");
    }
}

/// Layouts that may be written, and those that have too many dimensions or elements that share memory.
#[test]
fn layouts_at_their_limits() {
    let (dense, thirds) = ([256, 128, 64, 32, 16, 8, 4, 2, 1], [6561, 2187, 729, 243, 81, 27, 9, 3, 1]);
    for (text, shape, strides, error, reason) in [
        ("sin", &[2; 8][..], &thirds[1..], None, "eight dimensions"),
        ("sin", &[2; 9], &thirds, Some("at most 8 dimensions"), "nine that do not merge"),
        ("sin", &[2; 9], &dense, None, "nine that merge into one"),
        ("sequential:0", &[2; 8], &dense[1..], None, "eight dimensions"),
        ("sequential:0", &[2; 9], &dense, Some("at most 8 dimensions"), "coordinates need every dimension"),
        ("sin", &[1, 3], &[0, 2], None, "an extent of 1 has no second element to overlap with"),
        ("sin", &[0, 3], &[0, 0], None, "nothing is written"),
        ("sin", &[2, 3], &[4, 1], None, "the second row begins after the first"),
        ("sin", &[2, 3], &[4, 2], Some("must not overlap"), "the second row begins with the end of the first"),
        ("sin", &[2, 3], &[5, 2], None, "one element further, in the gaps of the first row"),
        ("sin", &[3], &[0], Some("must not overlap"), "all in one place"),
    ] {
        let layout = Layout::strided(shape, strides, 0).unwrap();
        let found = kernel_params(&text.parse().unwrap(), DType::F32, &layout).map(|_| ()).map_err(|e| e.to_string());
        match (&found, error) {
            (Ok(()), None) => {}
            (Err(message), Some(part)) => assert!(message.contains(part), "{reason}: {message}"),
            _ => panic!("{text} {shape:?} {strides:?}: {found:?}, although {reason}"),
        }
    }
}

/// What a kernel reads of a fill, where no other test would see a difference.
#[test]
fn parameters_are_reduced_to_what_kernels_read() {
    let of = |text: &str, dtype, layout: &Layout| kernel_params(&text.parse().unwrap(), dtype, layout).unwrap();
    let dense = Layout::contiguous(&[4, 6]).unwrap();
    let padded = Layout::strided(&[4, 6], &[9, 1], 1).unwrap();
    assert_eq!(of("sin", DType::F32, &dense).flags, flag::CONTIGUOUS);
    assert_eq!(of("sin", DType::F32, &padded).flags, 0);
    // Two elements of a byte are written by one thread, or one after the other.
    let twice = [flag::EVEN, flag::ODD];
    for (text, dtype, layout, expected, reason) in [
        ("sin", DType::F4E2M1, &dense, &[0][..], "whole bytes"),
        ("sin", DType::F4E2M1, &padded, &twice, "a byte may belong to two rows"),
        ("crand:-1,1", DType::F4E2M1, &dense, &twice, "threads take elements, not bytes"),
        ("sin", DType::F32, &padded, &[0], "an element is a whole byte or more"),
        ("crand:-1,1", DType::F32, &dense, &[0], "an element is a whole byte or more"),
    ] {
        assert_eq!(passes(&of(text, dtype, layout), dtype), expected, "{text} {dtype}: {reason}");
    }
    for (text, dtype, signed, count, period, reason) in [
        ("exact:5000,3,3,f16,a", DType::F16, true, 6, 23, "227 products of up to 9 fit 2048: one in ceil(5000 / 227)"),
        ("exact:5000,3,4,f16,a", DType::F16, true, 6, 30, "170 products of up to 12 fit 2048"),
        ("exact:5000,3,4,f16,b", DType::F16, true, 8, 1, "the other operand is dense"),
        ("exact:5000,3,4,f16,b", DType::U8, false, 4, 1, "no sign"),
        ("exact:2048,1,1,f16,a", DType::F16, true, 2, 1, "all products fit"),
        ("exact:2049,1,1,f16,a", DType::F16, true, 2, 2, "one too many"),
    ] {
        let p = of(text, dtype, &dense);
        assert_eq!((p.flags & flag::SIGNED != 0, p.int_count, p.period), (signed, count, period), "{text} {dtype}: {reason}");
    }
    // No sign of zero comes in through a bound.
    for (text, dtype) in [
        ("uniform:-0,1", DType::F32),
        ("uniform:-0.1,1", DType::F4E2M1),
        ("normal:-0,1", DType::F32),
        ("monotonic:-0,1", DType::F64),
        ("crand:-0,1", DType::F16),
    ] {
        let p = of(text, dtype, &dense);
        for (what, x) in [("a", p.a), ("low", p.low)] {
            assert!(x != 0.0 || x.is_sign_positive(), "{text} {dtype}: {what} is {x:?}");
        }
    }
}
