//! Runs the machine code of code objects for AMD's GPUs, as hipcc makes it.
//!
//! ```text
//! code object --llvm-objdump--> lines --parse--> operands --program--> actions, by address      once for each object
//! for each block, for each wavefront of 64 lanes: run until a barrier or the end                a launch
//! ```
//!
//! The other executor runs kernels that the host's compiler has made of the same source, and finds races. This one shows that what AMD's compiler made of it computes the same. Wavefronts of a
//! block run one after the other between barriers, blocks in ascending order, lanes in the order of their numbers. It knows the instructions that hipverify's kernels have, but for matrix
//! instructions; another one is an error that names it, and so is an access outside of live memory. Approximations (`v_rcp_f32`) are exact here.

mod access;
mod memory;
mod object;
mod parse;
mod program;
mod scalar;
#[cfg(test)]
mod tests;
mod vector;
mod wave;

pub(crate) use object::Object;

use crate::exec::Launch;
use crate::memory_map;
use object::Descriptor;
use std::cell::Cell;
use wave::{Around, LANES, Stop, Wave};

/// Registers of a lane.
const REGISTERS: usize = 256;

impl Around<'_> {
    /// Whether these bytes are in a live block of memory.
    fn check(&self, at: usize, bytes: usize) -> Result<(), String> {
        let inside = |(from, to): (usize, usize)| from <= at && at.saturating_add(bytes) <= to;
        if !inside(self.last.get()) {
            self.last.set((self.block_of)(at).unwrap_or_default());
        }
        if inside(self.last.get()) {
            Ok(())
        } else {
            Err(format!("an access to {bytes} bytes at {at:#x}: {}", memory_map::describe(at, bytes)))
        }
    }
}

/// Whether machine code is run: `HIPVERIFY_STANDIN_EXECUTE`.
pub(crate) fn is_asked() -> bool {
    std::env::var("HIPVERIFY_STANDIN_EXECUTE").is_ok_and(|how| how == "machine-code")
}

/// Runs a launch with the kernel of an object.
pub(crate) fn run(object: &Object, launch: &Launch<'_>) -> Result<(), String> {
    let descriptor = object.descriptor(launch.name).ok_or("the code object has no such kernel")?;
    if descriptor.scratch > 0 || descriptor.registers_2 & 1 != 0 {
        return Err(format!("it takes {} bytes of scratch memory", descriptor.scratch));
    }
    // Subnormal numbers are kept, of all formats; see LLVM's user guide, FLOAT_MODE.
    const KEEPS_SUBNORMALS: u32 = 0xf0;
    if descriptor.registers_1 >> 12 & 0xf0 != KEEPS_SUBNORMALS {
        return Err("it flushes subnormal numbers".to_owned());
    }
    let arguments = kernel_arguments(launch);
    let packet = packet(launch, arguments.as_ptr() as u64);
    let own = [slice_of(&arguments), slice_of(&packet), slice_of(&object.memory)];
    let block_of = |at: usize| own.iter().copied().find(|(from, to)| (*from..*to).contains(&at)).or_else(|| memory_map::block_of(at));
    let mut steps = launch.steps;
    for block in 0..launch.blocks.iter().map(|n| u64::from(*n)).product() {
        let block = crate::exec::split(block, launch.blocks);
        let mut shared = vec![0xa5; descriptor.shared + launch.dynamic_shared];
        let around =
            Around { object, shared: &mut shared, block_of: &block_of, last: Cell::default(), steps: &mut steps, arch: launch.arch };
        run_block(launch, descriptor, block, [arguments.as_ptr() as u64, packet.as_ptr() as u64], around)?;
    }
    Ok(())
}

fn slice_of<T>(x: &[T]) -> (usize, usize) {
    let from = x.as_ptr() as usize;
    (from, from + size_of_val(x))
}

/// The arguments one after the other, each aligned to 8 bytes where it has as many, and zeros for the hidden ones.
fn kernel_arguments(launch: &Launch<'_>) -> Vec<u64> {
    let mut bytes: Vec<u8> = Vec::new();
    for (argument, size) in launch.arguments.iter().zip(launch.sizes) {
        bytes.resize(bytes.len().next_multiple_of((*size).next_power_of_two().clamp(1, 8)), 0);
        bytes.extend(argument.iter().flat_map(|word| word.to_le_bytes()).take(*size));
    }
    bytes.resize(bytes.len().next_multiple_of(8) + 256, 0);
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// The packet of the launch, `hsa_kernel_dispatch_packet_t`, as far as compilers read it.
fn packet(launch: &Launch<'_>, arguments: u64) -> Vec<u64> {
    let [x, y, z] = launch.threads.map(u64::from);
    let [gx, gy, gz] = [0, 1, 2].map(|i| u64::from(launch.threads[i]) * u64::from(launch.blocks[i]));
    vec![x << 32 | y << 48, z | gx << 32, gy | gz << 32, 0, 0, arguments, 0, 0]
}

fn run_block(
    launch: &Launch<'_>,
    descriptor: Descriptor,
    block: [u32; 3],
    [arguments, packet]: [u64; 2],
    mut around: Around<'_>,
) -> Result<(), String> {
    let threads: usize = launch.threads.iter().map(|n| *n as usize).product();
    let wave = |first: usize| start(launch, descriptor, block, [arguments, packet], (first, threads));
    let mut waves = (0..threads).step_by(LANES).map(wave).collect::<Result<Vec<_>, _>>()?;
    let mut running = vec![true; waves.len()];
    while running.contains(&true) {
        for (wave, running) in waves.iter_mut().zip(&mut running).filter(|(_, running)| **running) {
            *running = wave.run(&mut around)? == Stop::Barrier;
        }
    }
    Ok(())
}

/// A wavefront as it begins: registers as LLVM's user guide for AMDGPU has them, "Initial Kernel Execution State".
fn start(
    launch: &Launch<'_>,
    descriptor: Descriptor,
    block: [u32; 3],
    [arguments, packet]: [u64; 2],
    (first, threads): (usize, usize),
) -> Result<Wave, String> {
    let arbitrary = [0xa5a5_a5a5; LANES];
    let mut wave = Wave {
        scalars: [0xa5a5_a5a5; 128],
        vectors: vec![arbitrary; 2 * REGISTERS],
        accumulators: vec![arbitrary; REGISTERS],
        condition: false,
        counter: descriptor.entry,
    };
    let mut at = 0;
    // In this order, each if its bit is set: scratch buffer, packet, queue, arguments, launch number, scratch, scratch size.
    for (bit, (registers, value)) in
        [(4, None), (2, Some(packet)), (2, None), (2, Some(arguments)), (2, Some(0)), (2, Some(0)), (1, Some(0))].into_iter().enumerate()
    {
        if descriptor.properties >> bit & 1 == 0 {
            continue;
        }
        if let (2, Some(value)) = (registers, value) {
            wave.set_scalar_64(at, value);
        }
        at += registers;
    }
    let user = (descriptor.registers_2 >> 1 & 31) as u8;
    if at > user {
        return Err(format!("{at} scalar registers are set up, and {user} announced"));
    }
    at = user;
    for (axis, index) in block.into_iter().enumerate() {
        if descriptor.registers_2 >> (7 + axis) & 1 == 1 {
            wave.scalars[usize::from(at)] = index;
            at += 1;
        }
    }
    let active = threads - first;
    wave.set_scalar_64(126, if active >= LANES { u64::MAX } else { (1 << active) - 1 });
    let packed = ["gfx90a", "gfx942", "gfx950"].contains(&launch.arch);
    for lane in 0..LANES {
        let [x, y, z] = crate::exec::split((first + lane) as u64, launch.threads);
        if packed {
            wave.vectors[0][lane] = x | y << 10 | z << 20;
        } else {
            (0..3).zip([x, y, z]).for_each(|(register, index)| wave.vectors[register][lane] = index);
        }
    }
    Ok(wave)
}
