//! What memory there is: blocks of the device and of pinned host memory, each with red zones on both sides. Freed blocks stay for a
//! while, so that a kernel that still uses one is told so.

use crate::asan;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Bytes before and behind each block that belong to nobody.
const RED_ZONE: usize = 256;
/// How much freed memory is kept.
const QUARANTINE: usize = 64 << 20;

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Device,
    Pinned,
}

struct Block {
    size: usize,
    place: Place,
    freed: bool,
}

#[derive(Default)]
struct Map {
    blocks: BTreeMap<usize, Block>,
    /// Freed blocks, the oldest first, and their bytes.
    freed: VecDeque<usize>,
    freed_bytes: usize,
}

static MAP: RwLock<Option<Map>> = RwLock::new(None);
/// Changes when a block is freed: what was looked up before may be wrong.
static GENERATION: AtomicU64 = AtomicU64::new(0);

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(2 * RED_ZONE)?, RED_ZONE).ok()
}

/// A block full of 0xA5, as device memory has arbitrary contents.
pub(crate) fn allocate(size: usize, place: Place) -> Option<usize> {
    // SAFETY: the layout has red zones, so its size is not zero.
    let whole = unsafe { alloc(layout(size)?) };
    if whole.is_null() {
        return None;
    }
    // SAFETY: the block has this size and red zones around it.
    unsafe { whole.write_bytes(0xa5, size + 2 * RED_ZONE) };
    let at = whole as usize + RED_ZONE;
    asan::forbid(whole as usize, RED_ZONE);
    asan::forbid(at + size, RED_ZONE);
    let mut map = MAP.write().unwrap_or_else(PoisonError::into_inner);
    map.get_or_insert_default().blocks.insert(at, Block { size, place, freed: false });
    Some(at)
}

/// Ends the use of a block of `allocate`. Its memory is overwritten and kept for a while.
pub(crate) fn free(at: usize) {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    let mut map = MAP.write().unwrap_or_else(PoisonError::into_inner);
    let map = map.get_or_insert_default();
    let Some(block) = map.blocks.get_mut(&at).filter(|block| !block.freed) else { return };
    block.freed = true;
    // SAFETY: the block was allocated with this size, and is deallocated below only after this.
    unsafe { (at as *mut u8).write_bytes(0xdd, block.size) };
    asan::forbid(at, block.size);
    map.freed_bytes += block.size;
    map.freed.push_back(at);
    while map.freed_bytes > QUARANTINE
        && let Some(oldest) = map.freed.pop_front()
        && let Some(block) = map.blocks.remove(&oldest)
    {
        map.freed_bytes -= block.size;
        if let Some(layout) = layout(block.size) {
            // SAFETY: allocated by `allocate` with this layout, and no longer in the map.
            unsafe { dealloc((oldest - RED_ZONE) as *mut u8, layout) };
        }
    }
}

/// A number that changes with each `free`.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Beginning and end of the live block that holds the address.
pub(crate) fn block_of(at: usize) -> Option<(usize, usize)> {
    let map = MAP.read().unwrap_or_else(PoisonError::into_inner);
    let (from, block) = map.as_ref()?.blocks.range(..=at).next_back()?;
    (!block.freed && at < from + block.size).then_some((*from, from + block.size))
}

/// Where an access outside of all live blocks lies: in words.
pub(crate) fn describe(at: usize, size: usize) -> String {
    let map = MAP.read().unwrap_or_else(PoisonError::into_inner);
    let Some(map) = map.as_ref() else { return "there is no memory".to_owned() };
    let nearest = map.blocks.range(..=at).next_back().into_iter().chain(map.blocks.range(at..).next());
    let distance = |from: usize, to: usize| if at < from { from - at } else { (at + size).saturating_sub(to) };
    let Some((from, block)) = nearest.min_by_key(|(from, block)| distance(**from, **from + block.size)) else {
        return "there is no memory".to_owned();
    };
    let (to, place) = (from + block.size, if block.place == Place::Device { "device" } else { "pinned" });
    let what = format!("{} bytes of {}{place} memory at {from:#x}", block.size, if block.freed { "freed " } else { "" });
    match distance(*from, to) {
        far if far > 1 << 20 => "no memory is near".to_owned(),
        _ if at >= *from && at + size <= to => format!("inside {what}"),
        far if at < *from => format!("{far} bytes before {what}"),
        far => format!("{far} bytes beyond the end of {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_and_described() {
        let at = allocate(100, Place::Device).expect("memory");
        for (address, size, inside, words) in [
            (at, 4, true, "inside 100 bytes of device memory"),
            (at + 99, 1, true, "inside"),
            (at - 4, 4, false, "4 bytes before 100 bytes"),
            (at + 100, 8, false, "8 bytes beyond the end of 100 bytes"),
            (at + 98, 4, true, "2 bytes beyond the end"),
        ] {
            assert_eq!(block_of(address).is_some(), inside, "{words}");
            assert!(describe(address, size).contains(words), "{words}: {}", describe(address, size));
        }
        let before = generation();
        free(at);
        assert!(block_of(at).is_none() && generation() != before);
        assert!(describe(at, 1).contains("inside 100 bytes of freed device memory"), "{}", describe(at, 1));
        assert!(describe(8, 1).contains("no memory is near"));
    }
}
