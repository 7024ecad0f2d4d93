//! How many instructions a kernel issues for each element that it compares, read off its disassembly.
//!
//! What is counted is the shortest way around the loop in which a lane loads E elements of both tensors by vectors and computes their metrics:
//! no rare branch is on it. The loop is known by a block with much arithmetic, three fifths of the most that a block without such instructions has: a rare branch may have more.
//!
//! ```text
//! blocks   instructions between labels and branches; each weighs as many instructions as are counted
//! state    (block, bytes loaded since the loop's block), a step goes on to the blocks that may follow
//! answer   the least weight that comes back to the loop's block with exactly the bytes of E elements (Dijkstra)
//! ```

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::process::Command;

use crate::Result;

/// What an instruction does, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
struct Instruction {
    address: u64,
    /// Whether it is counted: on AMD GPUs those of the vector unit, on NVIDIA's all.
    counted: bool,
    /// In floats, the counting of pairs, or the shifts that find a pair's code (hip/verify/bytes.h).
    arithmetic: bool,
    /// Bytes of a load of 8 or 16.
    loads: u32,
    /// Whether it is nowhere on the loop's shortest way: a load of an element or a word, lanes that exchange what they have, as for sums, or a division.
    rare: bool,
    /// Where it may branch to.
    target: Option<u64>,
    /// Whether the next one may follow.
    falls_through: bool,
}

/// A kernel's instructions.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) bytes: u64,
    /// Whether a result in f32 becomes f16 in the instruction that computes it: with one rounding where the kernel's source has two.
    pub(crate) fused_conversion: bool,
    instructions: Vec<Instruction>,
}

/// The kernels of an object for AMD GPUs, disassembled by llvm-objdump.
pub(crate) fn disassemble(object: &[u8]) -> Result<BTreeMap<String, Code>> {
    let path = std::env::temp_dir().join(format!("code_objects-{}.elf", std::process::id()));
    std::fs::write(&path, object).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = objdump(&path);
    // A file that stays behind in the folder for such files harms nobody.
    let _ = std::fs::remove_file(&path);
    amd(&text?)
}

/// `$LLVM_OBJDUMP`, else the newest that is found.
fn objdump(path: &std::path::Path) -> Result<String> {
    let asked = std::env::var("LLVM_OBJDUMP").ok();
    let names = ["llvm-objdump-19", "/opt/rocm/llvm/bin/llvm-objdump", "llvm-objdump"].map(str::to_owned);
    for name in asked.map_or(names.to_vec(), |name| vec![name]) {
        if let Ok(done) = Command::new(name).args(["-t", "-d", "--no-show-raw-insn"]).arg(path).output()
            && done.status.success()
        {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
    }
    Err("no llvm-objdump runs: install LLVM's tools, or set LLVM_OBJDUMP".to_owned())
}

/// Reads what llvm-objdump prints: a table of symbols, then each function's instructions.
///
/// `s_cbranch_execnz 65528   // 00000000EE5C: BF89FFF8 <verify_counts_f32_16_16+0x40>`
fn amd(text: &str) -> Result<BTreeMap<String, Code>> {
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let mut all: BTreeMap<String, Code> = BTreeMap::new();
    let (mut name, mut base) = (String::new(), 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, "F", ".text", size, .., symbol] = words[..] {
            all.entry(symbol.to_owned()).or_default().bytes = hex(size).unwrap_or(0);
        } else if let [address, symbol] = words[..]
            && let Some(symbol) = symbol.strip_prefix('<').and_then(|s| s.strip_suffix(">:"))
        {
            (name, base) = (symbol.to_owned(), hex(address).ok_or(line)?);
        } else if let Some((code, comment)) = line.split_once("//") {
            let address = comment.split(':').next().and_then(|a| hex(a.trim())).ok_or(line)?;
            let operation = code.split_whitespace().next().ok_or(line)?;
            let label =
                || Some(base + comment.rsplit_once('<')?.1.split_once("+0x").and_then(|(_, o)| hex(o.trim_end_matches('>'))).unwrap_or(0));
            let code = all.entry(name.clone()).or_default();
            code.fused_conversion |= operation.contains("_mixlo_f16") || operation.contains("_mixhi_f16");
            let branches = operation.starts_with("s_cbranch") || operation == "s_branch";
            code.instructions.push(Instruction {
                address,
                counted: operation.starts_with("v_"),
                arithmetic: ["fma", "mul", "sub", "add", "max", "mac"].iter().any(|o| operation.contains(o)) && operation.contains("_f")
                    || ["ds_add_u32", "v_alignbit_b32"].contains(&operation),
                // Not flat loads, which wait for LDS and memory together: a kernel that loads elements by such has no loop here.
                loads: match operation {
                    "global_load_dwordx4" => 16,
                    "global_load_dwordx2" => 8,
                    _ => 0,
                },
                rare: operation == "ds_bpermute_b32"
                    || operation.starts_with("v_div_")
                    || operation.starts_with("global_load") && !operation.starts_with("global_load_dwordx"),
                target: if branches { label() } else { None },
                falls_through: !matches!(operation, "s_branch" | "s_endpgm" | "s_setpc_b64"),
            });
        }
    }
    Ok(all)
}

/// Reads what `cuobjdump -sass` prints: `/*0010*/   @!P0 BRA 0x1230 ;`, below `Function : NAME`.
pub(crate) fn nvidia(text: &str) -> BTreeMap<String, Code> {
    let mut all: BTreeMap<String, Code> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(function) = line.strip_prefix("Function :") {
            function.trim().clone_into(&mut name);
        } else if let Some((address, rest)) = line.strip_prefix("/*").and_then(|l| l.split_once("*/"))
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            let mut words = rest.split(';').next().unwrap_or_default().split_whitespace().peekable();
            let conditional = words.next_if(|w| w.starts_with('@')).is_some();
            let Some(operation) = words.next() else { continue };
            let number = |w: &str| u64::from_str_radix(w.trim_matches(['`', '(', ')', ',']).strip_prefix("0x")?, 16).ok();
            let code = all.entry(name.clone()).or_default();
            code.bytes = address + 16;
            let part = |p: &str| operation.split('.').any(|o| o == p);
            code.instructions.push(Instruction {
                address,
                counted: true,
                arithmetic: ["FADD", "FMUL", "FFMA", "FMNMX", "DADD", "DMUL", "DFMA", "DMNMX", "ATOMS"].iter().any(|o| part(o))
                    || part("SHF") && part("W"),
                // The second copies to shared memory.
                loads: match (part("LDG") || part("LDGSTS"), part("128"), part("64")) {
                    (true, true, _) => 16,
                    (true, _, true) => 8,
                    _ => 0,
                },
                // Under a condition such a load is one of narrower formats, beside those of wider ones.
                rare: part("SHFL") || part("RCP") || (part("LDG") || part("LDGSTS")) && !part("128") && !part("64") && !conditional,
                target: if part("BRA") { words.last().and_then(number) } else { None },
                falls_through: conditional || !(part("BRA") || part("EXIT") || part("RET")),
            });
        }
    }
    all
}

#[derive(Debug)]
struct Block {
    weight: u32,
    bytes: u32,
    arithmetic: usize,
    rare: bool,
    next: Vec<usize>,
}

impl Code {
    /// Instructions for the elements whose vectors take `bytes`, and for as many more elements of the same vectors if there are such (a turn
    /// without loads); none where the kernel has no such loop.
    pub(crate) fn turn(&self, bytes: u32) -> Option<(u32, Option<u32>)> {
        let blocks = self.blocks();
        let most = blocks.iter().filter(|b| !b.rare).map(|b| b.arithmetic).max()?;
        let ways = (0..blocks.len()).filter(|&b| 5 * blocks[b].arithmetic >= 3 * most && !blocks[b].rare).filter_map(|b| {
            let around = around(&blocks, b, bytes);
            Some((*around.get(&bytes)?, around.get(&0).copied()))
        });
        ways.min_by_key(|&(loads, _)| loads)
    }

    fn blocks(&self) -> Vec<Block> {
        let code = &self.instructions;
        let targets: BTreeSet<u64> = code.iter().filter_map(|i| i.target).collect();
        let starts: Vec<usize> = (0..code.len())
            .filter(|&i| i == 0 || targets.contains(&code[i].address) || code[i - 1].target.is_some() || !code[i - 1].falls_through)
            .collect();
        let number: BTreeMap<u64, usize> = starts.iter().enumerate().map(|(b, &s)| (code[s].address, b)).collect();
        let block = |(b, &start): (usize, &usize)| {
            let end = starts.get(b + 1).copied().unwrap_or(code.len());
            let (inside, last) = (&code[start..end], &code[end - 1]);
            let follows = if last.falls_through && b + 1 < starts.len() { Some(b + 1) } else { None };
            Block {
                weight: inside.iter().filter(|i| i.counted).count() as u32,
                bytes: inside.iter().map(|i| i.loads).sum(),
                arithmetic: inside.iter().filter(|i| i.arithmetic).count(),
                rare: inside.iter().any(|i| i.rare),
                next: last.target.and_then(|t| number.get(&t).copied()).into_iter().chain(follows).collect(),
            }
        };
        starts.iter().enumerate().map(block).collect()
    }
}

/// The least weight of a way from a block back to it, by the bytes that are loaded on it.
fn around(blocks: &[Block], start: usize, most: u32) -> BTreeMap<u32, u32> {
    let (mut best, mut ways) = (BTreeMap::new(), BTreeMap::new());
    let first = (blocks[start].weight, blocks[start].bytes, start);
    let mut queue = BinaryHeap::from([std::cmp::Reverse(first)]);
    best.insert((first.1, first.2), first.0);
    while let Some(std::cmp::Reverse((weight, bytes, block))) = queue.pop() {
        if best.get(&(bytes, block)) != Some(&weight) {
            continue;
        }
        for &next in &blocks[block].next {
            if next == start {
                ways.entry(bytes).or_insert(weight);
                continue;
            }
            let way = (weight + blocks[next].weight, bytes + blocks[next].bytes, next);
            let known = best.get(&(way.1, next));
            if !blocks[next].rare && way.1 <= most && known.is_none_or(|&k| way.0 < k) {
                best.insert((way.1, next), way.0);
                queue.push(std::cmp::Reverse(way));
            }
        }
    }
    ways
}
