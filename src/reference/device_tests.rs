//! Every device against the host, bit by bit: formats, layouts and what follows the sums.

use super::*;
use crate::device::{AsTensor, Device, DeviceMem, Layout, TensorMut, TensorRef};
use crate::dtype::{DType, Overflow, Rounding};
use crate::matrix_core::{Arch, Input, Model};

/// Elements of any format: of a few binades, with zeros, subnormals and, where `wild`, any pattern now and then.
fn bytes(dtype: DType, elements: usize, seed: u64, wild: bool) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut roll = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 20
    };
    let mut out = vec![0; dtype.bytes_for(elements).unwrap()];
    for i in 0..elements {
        let (kind, x) = (roll() % 32, roll());
        let value = (x as f64 / (1u64 << 43) as f64 - 1.0) * 2f64.powi((roll() % 8) as i32 - 4);
        let integer = dtype.float_format().is_none();
        let value = if integer { (value * 50.0).trunc() } else { value };
        let bits = match kind {
            0 => 0,
            1 if wild => x & (u64::MAX >> (64 - dtype.bits())),
            2 if !integer => dtype.encode(dtype.float_format().unwrap().min_positive() * 3.0, Rounding::NearestEven, Overflow::Saturate),
            _ => dtype.encode(value, Rounding::NearestEven, Overflow::Saturate),
        };
        dtype.store_bits(&mut out, i, bits);
    }
    out
}

/// A tensor in memory of its own.
struct Owned {
    memory: DeviceMem<u8>,
    dtype: DType,
    layout: Layout,
}

impl Owned {
    fn new(device: &Device, dtype: DType, layout: &Layout, seed: u64, wild: bool) -> Owned {
        let memory = DeviceMem::from_slice(device, &bytes(dtype, layout.end(), seed, wild)).unwrap();
        Owned { memory, dtype, layout: layout.clone() }
    }

    fn view(&self) -> TensorRef<'_> {
        let (device, at, size) = (self.memory.device(), self.memory.as_tensor().as_ptr(), self.memory.byte_size());
        // SAFETY: the memory is borrowed and has this size.
        unsafe { TensorRef::from_raw(device, at, size, self.dtype, self.layout.clone()).unwrap() }
    }

    fn view_mut(&mut self) -> TensorMut<'_> {
        let (device, size) = (self.memory.device().clone(), self.memory.byte_size());
        let at = self.memory.tensor_mut(&[size]).unwrap().as_mut_ptr();
        // SAFETY: the memory is borrowed exclusively and has this size.
        unsafe { TensorMut::from_raw(&device, at, size, self.dtype, self.layout.clone()).unwrap() }
    }
}

fn dense(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

/// Runs `compute` on every device into a result of this format and layout; fails where memory differs from the host's.
fn same(what: &str, dtype: DType, layout: &Layout, compute: impl Fn(&Device, &mut TensorMut<'_>)) {
    let on = |device: &Device| {
        let mut to = Owned::new(device, dtype, layout, 99, false);
        compute(device, &mut to.view_mut());
        to.memory.to_vec().unwrap()
    };
    let host = on(&Device::host());
    assert!(host != bytes(dtype, layout.end(), 99, false), "{what}: nothing was written");
    for device in Device::all().into_iter().skip(1) {
        let found = on(&device);
        let differ = found.iter().zip(&host).position(|(a, b)| a != b);
        assert_eq!(differ, None, "{what}, {dtype} on {device}: the first byte that differs");
    }
}

const FLOATS: [DType; 8] =
    [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2Fnuz, DType::F6E3M2, DType::F4E2M1];

#[test]
fn operands_of_every_format() {
    for (x, dtype) in DType::ALL.into_iter().filter(|d| *d != DType::I64).enumerate() {
        let other = FLOATS[x % FLOATS.len()];
        for mode in Accumulate::PLAIN {
            let arithmetic = Arithmetic { accumulate: mode, flush_subnormals: x % 2 == 0 };
            let fits = arithmetic.accepts(dtype, other).is_ok();
            same(&format!("{dtype} x {other}, {arithmetic}"), DType::F64, &dense(&[3, 5]), |device, to| {
                let (a, b) = (Owned::new(device, dtype, &dense(&[3, 7]), 1, true), Owned::new(device, other, &dense(&[7, 5]), 2, true));
                let done = Gemm::new(arithmetic).run(&a.view(), &b.view(), to);
                assert_eq!(done.is_ok(), fits, "{done:?}");
                if !fits {
                    Gemm::new(Accumulate::F64).magnitudes(&a.view(), &b.view(), to).unwrap();
                }
            });
        }
    }
}

#[test]
fn results_of_every_format_after_alpha_beta_bias_and_epilogue() {
    for dtype in DType::ALL {
        for (x, epilogue) in [Epilogue::None, Epilogue::Relu, Epilogue::Clamp { low: -3.5, high: 7.25 }].into_iter().enumerate() {
            let layouts = [
                dense(&[2, 9, 6]),
                Layout::strided(&[2, 9, 6], &[80, 8, 1], 2).unwrap(),
                Layout::strided(&[2, 9, 6], &[1, 16, -2], 11).unwrap(),
            ];
            same(&format!("{epilogue:?}"), dtype, &layouts[x], |device, to| {
                let (a, b) = (
                    Owned::new(device, DType::F16, &dense(&[2, 9, 20]), 1, false),
                    Owned::new(device, DType::F16, &dense(&[20, 6]), 2, false),
                );
                let c = Owned::new(device, DType::Bf16, &if x == 1 { dense(&[9, 6]) } else { dense(&[2, 9, 6]) }, 3, false);
                let bias = Owned::new(device, DType::F32, &dense(&[6]), 4, false);
                let (c, bias) = (c.view(), bias.view());
                let gemm = Gemm::new(Accumulate::F32Fma).alpha(1.0 + x as f64 / 3.0).beta(0.7, &c).bias(&bias).epilogue(epilogue);
                gemm.run(&a.view(), &b.view(), to).unwrap();
            });
        }
    }
}

#[test]
fn strided_operands_and_enough_results_for_every_kernel() {
    // Rows beside each other in one thread, and the last of them cut off.
    let (m, n, k) = (203, 331, 19);
    let core = |arch, input| Accumulate::MatrixCore(Model::new(arch, input).unwrap());
    let modes = Accumulate::PLAIN.into_iter().chain([Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942].map(|arch| core(arch, Input::F16)));
    for mode in modes {
        same(&format!("{mode}"), DType::F32, &dense(&[m, n]), |device, to| {
            let a = Owned::new(device, DType::F16, &Layout::strided(&[m, k], &[-24, 1], 24 * (m - 1)).unwrap(), 5, false);
            let b = Owned::new(device, DType::F16, &Layout::strided(&[k, n], &[1, 20], 3).unwrap(), 6, false);
            Gemm::new(mode).run(&a.view(), &b.view(), to).unwrap();
        });
    }
}

#[test]
fn every_matrix_core_on_every_format_it_takes() {
    let cores = Arch::ALL.into_iter().flat_map(|arch| Input::ALL.into_iter().filter_map(move |input| Model::new(arch, input).ok()));
    let param: ConvParam = "2 1 2 3 5 3 2 7 6 2 1 1 2 2 1 0 2".parse().unwrap();
    for model in cores.filter(|m| gpu::has(Accumulate::MatrixCore(*m))) {
        let (ta, tb) = model.input().dtypes();
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardWeight] {
            let conv = Conv::new(param.clone(), direction, model);
            let [first, second, result] = conv.roles();
            for wild in [false, true] {
                same(&format!("{model} {direction:?}, wild {wild}"), DType::F32, &dense(&[param.elements(result)]), |device, to| {
                    let a = Owned::new(device, ta, &dense(&[param.elements(first)]), 8, wild);
                    let b = Owned::new(device, tb, &dense(&[param.elements(second)]), 9, wild);
                    conv.run(&a.view(), &b.view(), to).unwrap();
                });
            }
        }
    }
}

#[test]
fn a_convolution_gives_each_operand_its_own_format() {
    // A product of a bf8 number that fp8 could only hold as a subnormal, beside one that is cut where that would show.
    let host = Device::host();
    let param: ConvParam = "1 1 1 1 2 1 1 1 1 0 0".parse().unwrap();
    let model = Model::new(Arch::Gfx942, Input::Fp8Bf8).unwrap();
    let encode =
        |t: DType, v: &[f64]| -> Vec<u8> { v.iter().map(|&x| t.encode(x, Rounding::NearestEven, Overflow::Saturate) as u8).collect() };
    let (x, w) = ([1.75, 224.0], [2f64.powi(-13) * 1.75, 1.75]);
    let memory = |t, v: &[f64]| Owned { memory: DeviceMem::from_slice(&host, &encode(t, v)).unwrap(), dtype: t, layout: dense(&[2]) };
    let (a, b) = (memory(DType::F8E4M3Fnuz, &x), memory(DType::F8E5M2Fnuz, &w));
    let mut to = DeviceMem::<f32>::new(&host, 1).unwrap();
    Conv::new(param, Direction::Forward, model).run(&a.view(), &b.view(), &mut to.tensor_mut(&[1]).unwrap()).unwrap();
    let single = |v: &[f64]| v.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let expected = crate::matrix_core::naive::dot(model, 0.0, &single(&x), &single(&w));
    assert_eq!(to.to_vec().unwrap(), [expected]);
}
