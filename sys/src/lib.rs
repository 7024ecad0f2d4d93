//! HIP runtime bindings, loaded at run time, and the device code of `hipverify`.
