//! Orders in which kernels take the products of an element.

use crate::reference::KOrder;
use std::fmt;

/// An order of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// k upward.
    Ascending,
    /// k cut into so many parts of equal length, the last one shorter; their sums are added in f32, in this order.
    Split(usize),
    /// k in tiles of so many, dealt to as many wavefronts in turn, whose sums are added in f32.
    Interleaved { parts: usize, tile: usize },
    /// k downward, in tiles of so many that are each taken upward.
    Descending { tile: usize },
    /// As kernels order k that load `pack` neighbours at once for each of `lanes` rows of lanes: an instruction takes four of the first row, four of the second ...,
    /// where k, ascending, has all of the first row first.
    Packed { lanes: usize, pack: usize },
    /// Of a convolution.
    Conv(KOrder),
}

/// Neighbours in k that a lane gives to an instruction.
const TOGETHER: usize = 4;

impl Order {
    /// Those to be tried for a GEMM: one split where it is known, else the usual ones.
    pub(super) fn of_gemm(k: usize, parts: usize) -> Vec<Order> {
        if parts > 1 {
            return vec![Order::Split(parts)];
        }
        let packed = [2, 4].into_iter().flat_map(|lanes| [8, 16, 32].map(|pack| Order::Packed { lanes, pack }));
        let fits = |order: &Order| matches!(order, Order::Packed { lanes, pack } if k > 0 && k.is_multiple_of(lanes * pack));
        let split = [2, 4, 8, 16].into_iter().filter(|parts| k >= 2 * parts).map(Order::Split);
        let descending = [1, 16, 32, 64].into_iter().filter(|tile| k > *tile).map(|tile| Order::Descending { tile });
        let interleaved = [2, 4].into_iter().flat_map(|parts| [16, 32, 64].map(|tile| Order::Interleaved { parts, tile }));
        // Up to one tile a part that is a split.
        let interleaved = interleaved.filter(|order| matches!(order, Order::Interleaved { parts, tile } if k > parts * tile));
        [Order::Ascending].into_iter().chain(packed.filter(fits)).chain(split).chain(interleaved).chain(descending).collect()
    }

    /// The products of each part, in the order in which they are added.
    pub(super) fn parts(self, k: usize) -> Vec<Vec<usize>> {
        match self {
            Order::Ascending | Order::Conv(_) => vec![(0..k).collect()],
            Order::Split(parts) => {
                let length = k.div_ceil(parts).max(1);
                (0..k.div_ceil(length)).map(|part| (part * length..k.min((part + 1) * length)).collect()).collect()
            }
            Order::Interleaved { parts, tile } => (0..parts).map(|part| (0..k).filter(|i| i / tile % parts == part).collect()).collect(),
            Order::Descending { tile } => {
                vec![(0..k.div_ceil(tile)).rev().flat_map(|t| t * tile..k.min((t + 1) * tile)).collect()]
            }
            Order::Packed { lanes, pack } => {
                let at = |i: usize| {
                    let (block, step, lane) = (i / (lanes * pack), i / (lanes * TOGETHER) % (pack / TOGETHER), i / TOGETHER % lanes);
                    block * lanes * pack + lane * pack + step * TOGETHER + i % TOGETHER
                };
                vec![(0..k).map(at).collect()]
            }
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Ascending => f.write_str("k ascending"),
            Order::Split(parts) => write!(f, "k in {parts} parts, their sums added in f32"),
            Order::Interleaved { parts, tile } => write!(f, "k in tiles of {tile} for {parts} wavefronts in turn, their sums added in f32"),
            Order::Descending { tile: 1 } => f.write_str("k descending"),
            Order::Descending { tile } => write!(f, "k in tiles of {tile}, the last one first"),
            Order::Packed { lanes, pack } => write!(f, "k in packs of {pack} for {lanes} rows of lanes"),
            Order::Conv(KOrder::ChannelsFirst) => f.write_str("channels first"),
            Order::Conv(KOrder::ChannelsLast) => f.write_str("channels last"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_taken_once() {
        for (k, parts) in [(64, 1), (256, 1), (7, 1), (100, 3), (4, 8)] {
            for order in Order::of_gemm(k, parts) {
                let mut all = order.parts(k).concat();
                all.sort_unstable();
                assert_eq!(all, (0..k).collect::<Vec<_>>(), "{order}, k = {k}");
            }
        }
        assert_eq!(Order::Interleaved { parts: 2, tile: 2 }.parts(7), [vec![0, 1, 4, 5], vec![2, 3, 6]]);
        assert_eq!(Order::Descending { tile: 3 }.parts(7), [[6, 3, 4, 5, 0, 1, 2]]);
        assert_eq!(Order::Split(3).parts(7), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert_eq!(Order::Packed { lanes: 2, pack: 8 }.parts(16)[0], [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]);
    }
}
