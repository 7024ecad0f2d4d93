//! Sizes of buffers and of views of them, on the host device. `tests/device/memory.rs` has what every device does.

use super::*;
use crate::device::{AsTensor, DeviceSlice};
use crate::dtype::I4x2;

#[test]
fn buffers_are_as_large_as_they_say() {
    let device = Device::host();
    let packed = DeviceMem::<I4x2>::new(&device, 3).unwrap();
    assert_eq!((packed.len(), packed.elements(), packed.byte_size(), packed.is_empty()), (3, 6, 3, false));
    assert_eq!((packed.dtype(), packed.as_tensor().shape()), (DType::I4, &[6][..]));
    let mut wide = DeviceMem::<f64>::new(&device, 0).unwrap();
    assert_eq!((wide.len(), wide.elements(), wide.byte_size(), wide.is_empty()), (0, 0, 0, true));
    wide.realloc(2).unwrap();
    assert_eq!((wide.len(), wide.elements(), wide.byte_size(), wide.is_empty()), (2, 2, 16, false));
    wide.copy_from_slice(&[1.0, 2.0]).unwrap();
    wide.realloc(5).unwrap();
    assert_eq!(wide.to_vec().unwrap(), [0.0; 5], "the host's blocks are zeroed");
}

#[test]
fn borrowed_buffers_are_as_large_as_they_say() {
    let device = Device::host();
    let owner = DeviceMem::from_slice(&device, &[I4x2::pack(1, 2), I4x2::pack(3, 4)]).unwrap();
    let of = |len| {
        let address = owner.as_tensor().as_ptr().cast::<I4x2>();
        // SAFETY: `owner` has at least `len` units, is not written, and outlives the slice.
        unsafe { DeviceSlice::from_raw(address, len, &device).unwrap() }
    };
    for (len, elements) in [(0, 0), (1, 2), (2, 4)] {
        let slice = of(len);
        assert_eq!((slice.len(), slice.is_empty()), (len, len == 0));
        assert_eq!((slice.as_tensor().elements(), slice.as_tensor().byte_size()), (elements, len));
    }
    assert_eq!(of(2).tensor(&[2, 2]).unwrap().shape(), [2, 2]);
    assert_eq!(of(2).tensor(&[3]).unwrap().shape(), [3], "the last unit has one element");
    for (shape, reason) in
        [(&[3, 2][..], "too many"), (&[2], "a part: the other half would not be compared"), (&[1, 1], "a part"), (&[0], "nothing")]
    {
        let error = of(2).tensor(shape).unwrap_err().to_string();
        assert_eq!(error, format!("a buffer of 4 elements: shape {shape:?} does not match [4]"), "{reason}");
    }
    assert_eq!(of(2).strided(Layout::contiguous(&[2]).unwrap()).unwrap().elements(), 2, "a part that is meant");
    assert_eq!(
        of(2).strided(Layout::contiguous(&[6]).unwrap()).unwrap_err().to_string(),
        "bytes that the layout spans: expected 2, found 3"
    );
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let device = Device::host();
    let mut bytes = DeviceBytes::new(&device, 7).unwrap();
    let mut x = DeviceMem::<f32>::new(&device, 3).unwrap();
    let mut packed = DeviceMem::<I4x2>::new(&device, 3).unwrap();
    let other = DeviceMem::<f32>::new(&device, 4).unwrap();
    let beyond = || Layout::strided(&[2], &[3], 0).unwrap();
    for (found, expected) in [
        (bytes.set_value(1f32), "buffer size in bytes, rounded down to whole values: expected 4, found 7"),
        (bytes.copy_from_slice(&[0; 8]), "bytes copied to the device: expected 7, found 8"),
        (bytes.copy_to_slice(&mut [0; 6]), "bytes copied from the device: expected 7, found 6"),
        (bytes.copy_from(other.bytes()), "bytes copied between buffers: expected 7, found 16"),
        (x.copy_from_slice(&[0.0; 2]), "units copied to the device: expected 3, found 2"),
        (x.copy_to_slice(&mut [0.0; 4]), "units copied from the device: expected 3, found 4"),
        (x.copy_from(&other), "units copied between buffers: expected 3, found 4"),
        (x.tensor(&[2, 2]).map(drop), "a buffer of 3 elements: shape [2, 2] does not match [3]"),
        (x.tensor_mut(&[2]).map(drop), "a buffer of 3 elements: shape [2] does not match [3]"),
        (x.strided(beyond()).map(drop), "bytes that the layout spans: expected 12, found 16"),
        (x.strided_mut(beyond()).map(drop), "bytes that the layout spans: expected 12, found 16"),
        (packed.tensor(&[4]).map(drop), "a buffer of 6 elements: shape [4] does not match [6]"),
        (packed.tensor_mut(&[7]).map(drop), "a buffer of 6 elements: shape [7] does not match [6]"),
        (x.realloc(usize::MAX / 4), "device buffer: 4611686018427387903 elements of 4 bytes exceed the address space"),
        (TensorRef::from_host_bytes(&[0; 11], DType::F32, Layout::flat(3)).map(drop), "bytes that the layout spans: expected 11, found 12"),
    ] {
        assert_eq!(found.unwrap_err().to_string(), expected);
    }
    assert_eq!(packed.tensor(&[5]).unwrap().elements(), 5, "half a unit is left over");
    assert_eq!(TensorRef::from_host_bytes(&[0; 13], DType::F32, Layout::flat(3)).unwrap().elements(), 3, "more than needed is fine");
    assert_eq!(x.len(), 3, "what failed has changed nothing");
}

#[test]
fn blocks_of_bytes_are_tensors_of_any_format() {
    let copied = DeviceBytes::from_slice(&Device::host(), &[1, 2, 3]).unwrap();
    assert_eq!((copied.byte_size(), copied.to_vec().unwrap()), (3, vec![1, 2, 3]));
    let mut block = DeviceBytes::from_slice(&Device::host(), &[1; 12]).unwrap();
    assert_eq!(block.as_mut_ptr().cast_const(), block.as_ptr());
    let three = block.tensor(DType::F32, Layout::flat(3)).unwrap();
    assert_eq!((three.as_ptr(), three.byte_size(), three.dtype()), (block.as_ptr(), 12, DType::F32));
    assert_eq!(three.host_bytes(), [1; 12]);
    assert_eq!(block.tensor(DType::F4E2M1, Layout::flat(23)).unwrap().elements(), 23, "two elements a byte");
    for (dtype, n, needed) in [(DType::F32, 4, 16), (DType::F64, 2, 16), (DType::F4E2M1, 25, 13)] {
        let message = format!("bytes that the layout spans: expected 12, found {needed}");
        assert_eq!(block.tensor(dtype, Layout::flat(n)).unwrap_err().to_string(), message);
        assert_eq!(block.tensor_mut(dtype, Layout::flat(n)).unwrap_err().to_string(), message);
    }
    let beyond = Layout::strided(&[1], &[1], 3).unwrap();
    assert!(block.tensor(DType::F32, beyond.clone()).is_err() && block.tensor_mut(DType::F32, beyond).is_err(), "the offset counts");
    block.tensor_mut(DType::F32, Layout::strided(&[2], &[2], 0).unwrap()).unwrap().host_bytes_mut().fill(2);
    assert_eq!(block.tensor(DType::U8, Layout::flat(12)).unwrap().host_bytes(), [2; 12]);
    assert_eq!(DeviceBytes::new(&Device::host(), 0).unwrap().tensor(DType::F64, Layout::flat(0)).unwrap().elements(), 0);
}

#[test]
fn the_host_tells_its_name_and_memory() {
    let host = Device::host();
    assert!(host.name().starts_with("host, "), "{}", host.name());
    let (free, total) = host.memory_info().unwrap();
    assert!(free <= total && total >= 1 << 24, "{free} of {total} bytes");
}
