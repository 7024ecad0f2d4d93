//! The structs that kernels take.

use crate::device::hip::Params;
use hipverify_sys::abi;

macro_rules! params {
    ($($name:ident),* $(,)?) => { $(
        // SAFETY: each struct of `abi` is generated from the one of its name in `hip/abi.h`, and both sides assert the layout.
        unsafe impl Params for abi::$name {
            const NAME: &'static str = stringify!($name);
        }
    )* };
}

params!(
    BoundParams,
    Fill,
    FillCrand,
    Hash,
    MaxParams,
    MfmaGemm,
    MfmaIssue,
    ModelGemm,
    Nothing,
    ReadTwo,
    ReferenceFinish,
    ReferenceSums,
    ReferenceWiden,
    SetValue,
    VerifyPack,
    VerifyParams,
    WriteOne,
);
