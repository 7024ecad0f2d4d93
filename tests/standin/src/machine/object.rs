//! Code objects of hipcc: kernels, their descriptors, and their instructions.

use super::parse::Line;
use super::program::Instruction;
use std::collections::HashMap;
use std::io::Write as _;
use std::process::Command;

/// A code object for one architecture, loaded.
pub(crate) struct Object {
    /// The segments, as they lie in memory: address 0 of the file is the first byte.
    pub(super) memory: Vec<u8>,
    instructions: Vec<Instruction>,
    /// The index of the instruction at each address.
    at: HashMap<u64, usize>,
    kernels: HashMap<String, Descriptor>,
}

/// What a kernel demands of the launch: fields of the kernel descriptor, as LLVM's user guide for AMDGPU has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub entry: u64,
    pub shared: usize,
    pub scratch: usize,
    pub registers_1: u32,
    pub registers_2: u32,
    pub properties: u16,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], String> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| format!("the code object ends before byte {at}"))
}
fn u16_at(bytes: &[u8], at: usize) -> Result<u16, String> {
    number(bytes, at).map(u16::from_le_bytes)
}
fn u32_at(bytes: &[u8], at: usize) -> Result<u32, String> {
    number(bytes, at).map(u32::from_le_bytes)
}
fn u64_at(bytes: &[u8], at: usize) -> Result<u64, String> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// The object for an architecture in what `hipcc --genco` writes: a bundle, or one object. The image has no length of its own: `end` bytes of it at most are read.
pub(super) fn of_bundle<'a>(image: &'a [u8], arch: &str) -> Result<&'a [u8], String> {
    const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    if !image.starts_with(MAGIC) {
        return Ok(image);
    }
    let (mut at, count) = (MAGIC.len() + 8, u64_at(image, MAGIC.len())?);
    for _ in 0..count {
        let [offset, size, length] = [0, 8, 16].map(|field| u64_at(image, at + field));
        let (offset, size, length) = (offset? as usize, size? as usize, length? as usize);
        let name = image.get(at + 24..at + 24 + length).ok_or("the bundle ends in a name")?;
        let target = String::from_utf8_lossy(name).into_owned();
        if size > 0 && target.rsplit("--").next().is_some_and(|target| target.split(':').next() == Some(arch)) {
            return image.get(offset..offset + size).ok_or_else(|| format!("the bundle ends in the object for {arch}"));
        }
        at += 24 + length;
    }
    Err(format!("the bundle has no object for {arch}"))
}

impl Object {
    /// Loads the object of an ELF file for `arch`.
    pub(crate) fn load(image: &[u8], arch: &str) -> Result<Object, String> {
        let elf = of_bundle(image, arch)?;
        if !elf.starts_with(b"\x7fELF") {
            return Err("the code object is no ELF file".to_owned());
        }
        let memory = segments(elf)?;
        let (instructions, at) = disassemble(elf, arch)?;
        Ok(Object { kernels: descriptors(elf, &memory)?, memory, instructions, at })
    }

    /// The instruction at an address; `at` is where the one before it was found, which it mostly follows.
    pub(super) fn instruction(&self, address: u64, at: &mut usize) -> Result<&Instruction, String> {
        let next = *at + 1;
        *at = match self.instructions.get(next).filter(|instruction| instruction.address == address) {
            Some(_) => next,
            None => *self.at.get(&address).ok_or_else(|| format!("there is no instruction at {address:#x}"))?,
        };
        Ok(&self.instructions[*at])
    }

    pub(crate) fn has(&self, kernel: &str) -> bool {
        self.kernels.contains_key(kernel)
    }

    pub(super) fn descriptor(&self, kernel: &str) -> Option<Descriptor> {
        self.kernels.get(kernel).copied()
    }
}

fn segments(elf: &[u8]) -> Result<Vec<u8>, String> {
    let (table, size, count) = (u64_at(elf, 32)? as usize, u16_at(elf, 54)? as usize, u16_at(elf, 56)? as usize);
    let mut memory = Vec::new();
    for header in (0..count).map(|i| table + i * size) {
        let (load, offset, address) = (u32_at(elf, header)? == 1, u64_at(elf, header + 8)? as usize, u64_at(elf, header + 16)? as usize);
        let (in_file, in_memory) = (u64_at(elf, header + 32)? as usize, u64_at(elf, header + 40)? as usize);
        if !load {
            continue;
        }
        memory.resize(memory.len().max(address + in_memory), 0);
        let bytes = elf.get(offset..offset + in_file).ok_or("a segment goes beyond the code object's end")?;
        memory[address..address + in_file].copy_from_slice(bytes);
    }
    Ok(memory)
}

/// The descriptors: symbols that end in `.kd`.
fn descriptors(elf: &[u8], memory: &[u8]) -> Result<HashMap<String, Descriptor>, String> {
    let (table, size, count) = (u64_at(elf, 40)? as usize, u16_at(elf, 58)? as usize, u16_at(elf, 60)? as usize);
    let mut found = HashMap::new();
    for header in (0..count).map(|i| table + i * size) {
        const DYNAMIC_SYMBOLS: u32 = 11;
        if u32_at(elf, header + 4)? != DYNAMIC_SYMBOLS {
            continue;
        }
        let (offset, bytes, link) = (u64_at(elf, header + 24)? as usize, u64_at(elf, header + 32)? as usize, u32_at(elf, header + 40)?);
        let names = u64_at(elf, table + link as usize * size + 24)? as usize;
        for symbol in (offset..offset + bytes).step_by(24) {
            let name = elf.get(names + u32_at(elf, symbol)? as usize..).unwrap_or_default();
            let name = String::from_utf8_lossy(name.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
            if let Some(kernel) = name.strip_suffix(".kd") {
                let at = u64_at(elf, symbol + 8)? as usize;
                let descriptor = Descriptor {
                    shared: u32_at(memory, at)? as usize,
                    scratch: u32_at(memory, at + 4)? as usize,
                    entry: (at as u64).wrapping_add(u64_at(memory, at + 16)?),
                    registers_1: u32_at(memory, at + 48)?,
                    registers_2: u32_at(memory, at + 52)?,
                    properties: u16_at(memory, at + 56)?,
                };
                found.insert(kernel.to_owned(), descriptor);
            }
        }
    }
    Ok(found)
}

/// The disassembler: `LLVM_OBJDUMP`, or the first that runs.
fn objdump() -> Result<String, String> {
    let asked = std::env::var("LLVM_OBJDUMP").ok();
    let names = asked.into_iter().chain(["llvm-objdump-19", "/opt/rocm/llvm/bin/llvm-objdump", "llvm-objdump"].map(str::to_owned));
    let runs = |name: &String| Command::new(name).arg("--version").output().is_ok_and(|done| done.status.success());
    names.into_iter().find(runs).ok_or_else(|| "no llvm-objdump runs: install LLVM's tools, or set LLVM_OBJDUMP".to_owned())
}

fn disassemble(elf: &[u8], arch: &str) -> Result<(Vec<Instruction>, HashMap<u64, usize>), String> {
    let mut file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    file.write_all(elf).map_err(|e| e.to_string())?;
    let done = Command::new(objdump()?)
        .args(["-d", "--no-show-raw-insn", &format!("--mcpu={arch}")])
        .arg(file.path())
        .output()
        .map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let (mut instructions, mut at) = (Vec::new(), HashMap::new());
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        // `	s_mov_b32 s0, s1     // 000000003344: BE800001 `
        let Some((text, after)) = line.strip_prefix('\t').and_then(|line| line.split_once("//")) else { continue };
        let Some((address, words)) = after.trim().split_once(':') else { continue };
        let address = u64::from_str_radix(address, 16).map_err(|e| format!("{line}: {e}"))?;
        let size = 4 * words.split_whitespace().take_while(|word| word.len() == 8).count() as u64;
        at.insert(address, instructions.len());
        instructions.push(Instruction::new(Line::parse(text), text.trim(), address, size));
    }
    Ok((instructions, at))
}

#[cfg(test)]
impl Object {
    /// Instructions of 4 bytes each, from address 0 on.
    pub(super) fn of_lines(lines: &[&str]) -> Object {
        let instruction = |(i, text): (usize, &&str)| Instruction::new(Line::parse(text), text, 4 * i as u64, 4);
        let instructions: Vec<Instruction> = lines.iter().enumerate().map(instruction).collect();
        let at = instructions.iter().enumerate().map(|(i, instruction)| (instruction.address, i)).collect();
        Object { memory: Vec::new(), instructions, at, kernels: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_whole_code_object_is_refused() {
        for image in [&b""[..], b"no object", b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"__CLANG_OFFLOAD_BUNDLE__\x01\0\0\0\0\0\0\0"] {
            assert!(Object::load(image, "gfx90a").is_err(), "{image:?}");
        }
    }

    #[test]
    fn the_object_of_an_architecture_is_found_in_a_bundle() {
        let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
        let targets = ["host-x86_64-unknown-linux--", "hipv4-amdgcn-amd-amdhsa--gfx908", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"];
        bundle.extend(3u64.to_le_bytes());
        for (i, target) in targets.iter().enumerate() {
            let (offset, size) = if i == 0 { (0, 0) } else { (200 + i as u64, 1) };
            [offset, size, target.len() as u64].iter().for_each(|number: &u64| bundle.extend(number.to_le_bytes()));
            bundle.extend(target.bytes());
        }
        bundle.resize(201, 0);
        bundle.extend([8, 9]);
        assert_eq!(of_bundle(&bundle, "gfx908"), Ok(&[8][..]));
        assert_eq!(of_bundle(&bundle, "gfx90a"), Ok(&[9][..]));
        assert!(of_bundle(&bundle, "gfx942").is_err());
    }
}
