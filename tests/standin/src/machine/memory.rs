//! Loads, stores and atomic operations, of global and of shared memory.

use super::parse::Line;

/// What memory an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Space {
    Global,
    Shared,
    /// Constants, by scalar loads.
    Scalar,
}

/// What it does there.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    /// Bytes smaller than a word are widened, with their sign if `signed`; `high` goes to the upper half of a register and keeps the other.
    Load {
        signed: bool,
        high: Option<bool>,
    },
    Store {
        high: bool,
    },
    /// The new value from the old one and the operand. `returns`: the old one is the result.
    Atomic {
        update: fn(u64, u64) -> u64,
        returns: bool,
    },
}

#[derive(Clone, Copy)]
pub(super) struct Access {
    pub space: Space,
    pub operation: Operation,
    /// Bytes of a lane at one address.
    pub bytes: usize,
    /// The addresses of a lane, as distances from its own: two of ds_read2.
    pub offsets: [i64; 2],
    pub places: usize,
}

impl Access {
    pub(super) fn of(line: &Line) -> Option<Access> {
        let name = line.mnemonic.as_str();
        let offset = line.number("offset").unwrap_or(0);
        let one = |space, operation, bytes| Some(Access { space, operation, bytes, offsets: [offset, 0], places: 1 });
        if let Some(words) = name.strip_prefix("s_load_dword") {
            let words = words.strip_prefix('x').map_or(Some(1), |n| n.parse().ok())?;
            return one(Space::Scalar, Operation::Load { signed: false, high: None }, 4 * words);
        }
        let (space, rest) = match name.strip_prefix("global_") {
            Some(rest) => (Space::Global, rest),
            None => (Space::Shared, name.strip_prefix("ds_")?),
        };
        let load = |signed, high| Operation::Load { signed, high };
        if let Some(what) = rest.strip_prefix("load_") {
            return match what {
                "ubyte" => one(space, load(false, None), 1),
                "sbyte" => one(space, load(true, None), 1),
                "ushort" => one(space, load(false, None), 2),
                "sshort" => one(space, load(true, None), 2),
                "short_d16" => one(space, load(false, Some(false)), 2),
                "short_d16_hi" => one(space, load(false, Some(true)), 2),
                "ubyte_d16" => one(space, load(false, Some(false)), 1),
                "ubyte_d16_hi" => one(space, load(false, Some(true)), 1),
                _ => one(space, load(false, None), dwords(what)?),
            };
        }
        if let Some(what) = rest.strip_prefix("store_") {
            return match what {
                "byte" => one(space, Operation::Store { high: false }, 1),
                "byte_d16_hi" => one(space, Operation::Store { high: true }, 1),
                "short" => one(space, Operation::Store { high: false }, 2),
                "short_d16_hi" => one(space, Operation::Store { high: true }, 2),
                _ => one(space, Operation::Store { high: false }, dwords(what)?),
            };
        }
        if let Some(what) = rest.strip_prefix("atomic_") {
            let (what, bytes) = what.strip_suffix("_x2").map_or((what, 4), |what| (what, 8));
            let returns = line.has("glc") || line.has("sc0");
            return one(space, Operation::Atomic { update: update(what, bytes)?, returns }, bytes);
        }
        shared(line, rest)
    }
}

fn dwords(what: &str) -> Option<usize> {
    let words = what.strip_prefix("dword")?;
    Some(4 * words.strip_prefix('x').map_or(Some(1), |n| n.parse().ok())?)
}

fn update(what: &str, bytes: usize) -> Option<fn(u64, u64) -> u64> {
    let narrow = bytes == 4;
    Some(match what {
        "add" => |a, b| a.wrapping_add(b),
        "sub" => |a, b| a.wrapping_sub(b),
        "umax" => |a, b| a.max(b),
        "umin" => |a, b| a.min(b),
        "smax" if narrow => |a, b| if (a as i32) > b as i32 { a } else { b },
        "smin" if narrow => |a, b| if (a as i32) < b as i32 { a } else { b },
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        "swap" => |_, b| b,
        _ => return None,
    })
}

/// Names of shared memory: `read2st64_b64`, `add_rtn_u32`.
fn shared(line: &Line, rest: &str) -> Option<Access> {
    let (what, kind) = rest.rsplit_once('_')?;
    let bits: usize = kind.trim_start_matches(char::is_alphabetic).parse().ok()?;
    let bytes = bits / 8;
    let load = Operation::Load { signed: kind.starts_with('i'), high: None };
    let single =
        |operation| Some(Access { space: Space::Shared, operation, bytes, offsets: [line.number("offset").unwrap_or(0), 0], places: 1 });
    let double = |operation, step: i64| {
        let offsets = ["offset0", "offset1"].map(|name| line.number(name).unwrap_or(0) * step * bytes as i64);
        Some(Access { space: Space::Shared, operation, bytes, offsets, places: 2 })
    };
    match what {
        "read" => single(load),
        "write" => single(Operation::Store { high: false }),
        "read2" => double(load, 1),
        "read2st64" => double(load, 64),
        "write2" => double(Operation::Store { high: false }, 1),
        "write2st64" => double(Operation::Store { high: false }, 64),
        _ => {
            let (what, returns) = what.strip_suffix("_rtn").map_or((what, false), |what| (what, true));
            let what = match (what, kind.chars().next()) {
                ("max", Some('u')) => "umax",
                ("min", Some('u')) => "umin",
                ("max", Some('i')) => "smax",
                ("min", Some('i')) => "smin",
                ("wrxchg", _) => "swap",
                (what, _) => what,
            };
            single(Operation::Atomic { update: update(what, bytes)?, returns })
        }
    }
}
