//! What users write: generators, convolutions, names.

use super::kind;
use hipverify::DType;
use hipverify::fill::FillSpec;
use hipverify::matrix_core;
use hipverify::reference::{Arithmetic, ConvParam, Role};
use hipverify::verify::Profile;

/// A generator, which is what it prints; and a convolution.
pub(super) fn specs(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let spec = text.parse::<FillSpec>();
    let read = kind(&spec, |spec| {
        let printed = spec.to_string();
        let again: FillSpec = printed.parse().unwrap_or_else(|e| panic!("{printed} does not read: {e}"));
        assert_eq!(again.to_string(), printed);
        1
    });
    let conv = text.parse::<ConvParam>();
    read ^ kind(&conv, |conv| {
        for role in [Role::Input, Role::Filter, Role::Output] {
            assert_eq!(conv.shape(role).iter().product::<usize>(), conv.elements(role));
        }
        2 + conv.filter_space().len() as u64
    })
}

/// A format, a profile, an arithmetic, a matrix unit: what reads prints itself, and that reads again.
pub(super) fn names(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let dtype = text.parse::<DType>();
    if let Ok(dtype) = dtype {
        assert_eq!(dtype.to_string().parse::<DType>().ok(), Some(dtype));
    }
    let arithmetic = text.parse::<Arithmetic>();
    let kinds = [
        kind(&dtype, |d| 1 + *d as u64),
        kind(&text.parse::<Profile>(), |_| 1),
        kind(&arithmetic, |_| 2),
        kind(&text.parse::<matrix_core::Arch>(), |_| 3),
        kind(&text.parse::<matrix_core::Input>(), |_| 4),
    ];
    kinds.into_iter().fold(7, |all, one| all.rotate_left(5) ^ one)
}
