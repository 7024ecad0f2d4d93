//! What lanes of a wavefront do together: shuffles and votes.

use super::block::Place;
use crate::finding::Finding;

/// The operations; the numbers of `cpp/hip/hip_runtime.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Shuffle,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    Ballot,
    WaveBarrier,
    Matrix,
}

impl Operation {
    pub(super) fn of(number: i32) -> Operation {
        match number {
            0 => Operation::Shuffle,
            1 => Operation::ShuffleXor,
            2 => Operation::ShuffleUp,
            3 => Operation::ShuffleDown,
            4 => Operation::Ballot,
            _ => Operation::WaveBarrier,
        }
    }

    fn shuffles(self) -> bool {
        matches!(self, Operation::Shuffle | Operation::ShuffleXor | Operation::ShuffleUp | Operation::ShuffleDown)
    }
}

/// The operands of a matrix instruction: addresses on the stacks of waiting threads.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) name: &'static str,
    pub(super) abc: [usize; 3],
    pub(super) d: usize,
    pub(super) modifiers: [u32; 3],
}

/// What one lane asks for.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) value: u64,
    pub(super) argument: i32,
    pub(super) width: i32,
    /// The calls by which the kernel came here, which tell operations apart.
    pub(super) site: usize,
    pub(super) place: Place,
    pub(super) matrix: Option<Operands>,
}

impl Request {
    /// How many neighbouring lanes have to wait together before the operation may run; whether the subgroups of a wavefront vote together.
    pub(super) fn unit(&self, wavefront: usize, together: bool) -> usize {
        match self.operation {
            Operation::Matrix => wavefront,
            Operation::Ballot if together => wavefront,
            o if o.shuffles() => self.width as usize,
            _ => wavefront.min(super::block::SUBGROUP),
        }
    }

    /// A shuffle's width is a power of two of at most a wavefront.
    pub(super) fn check(&self, wavefront: usize) -> Result<(), Finding> {
        let fits = |width: usize| width.is_power_of_two() && width <= wavefront;
        if !self.operation.shuffles() || usize::try_from(self.width).is_ok_and(fits) {
            return Ok(());
        }
        Err(Finding::launch(format!("shuffles over a width of {} at {}, of {wavefront} lanes", self.width, self.place)))
    }

    /// The lane of the wavefront whose value a shuffle gives to `lane`.
    fn source(&self, lane: i32) -> i32 {
        let (width, first) = (self.width, lane & !(self.width - 1));
        let inside = |source: i32, fits: bool| if fits { source } else { lane };
        match self.operation {
            Operation::ShuffleXor => inside(lane ^ self.argument, (lane ^ self.argument) < first + width),
            Operation::ShuffleUp => inside(lane - self.argument, lane - self.argument >= first),
            Operation::ShuffleDown => inside(lane + self.argument, (lane - first) + self.argument < width),
            _ => first | (self.argument & (width - 1)),
        }
    }
}

/// The result of each lane that takes part, given as (lane of its wavefront, what it asks for). An error comes with the index of the lane.
pub(super) fn results(lanes: &[(usize, Request)]) -> Result<Vec<u64>, (usize, Finding)> {
    let votes = lanes.iter().filter(|(_, r)| r.value != 0).fold(0, |votes, (lane, _)| votes | 1u64 << lane);
    let result = |(i, (lane, request)): (usize, &(usize, Request))| {
        if !request.operation.shuffles() {
            return Ok(if request.operation == Operation::Ballot { votes } else { 0 });
        }
        let source = request.source(*lane as i32);
        let found = lanes.iter().find(|(other, _)| *other as i32 == source);
        found.map(|(_, r)| r.value).ok_or_else(|| {
            let text = format!("lane {lane} shuffles from lane {source}, which does not take part, at {}", request.place);
            (i, Finding::launch(text))
        })
    };
    lanes.iter().enumerate().map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, value: u64, argument: i32, width: i32) -> Request {
        // SAFETY: a literal.
        let place = unsafe { Place::new(c"case.hip".as_ptr(), 1) };
        Request { operation, value, argument, width, site: 0, place, matrix: None }
    }

    #[test]
    fn shuffles_take_what_hip_says() {
        use Operation::*;
        for (operation, argument, width, lane, expected) in [
            (Shuffle, 3, 64, 40, 3),
            (Shuffle, 3, 32, 40, 35),
            (Shuffle, 35, 32, 40, 35),
            (Shuffle, -1, 8, 17, 23),
            (ShuffleXor, 1, 32, 33, 32),
            (ShuffleXor, 16, 8, 33, 33),
            (ShuffleXor, 32, 64, 5, 37),
            (ShuffleUp, 1, 32, 32, 32),
            (ShuffleUp, 1, 64, 32, 31),
            (ShuffleDown, 1, 32, 31, 31),
            (ShuffleDown, 4, 32, 3, 7),
        ] {
            let lanes: Vec<_> = (0..64).map(|l| (l, request(operation, 100 + l as u64, argument, width))).collect();
            let found = results(&lanes).unwrap_or_else(|(_, e)| panic!("{}", e.text));
            assert_eq!(found[lane], 100 + expected, "{operation:?} {argument} {width} {lane}");
        }
    }

    #[test]
    fn absent_lanes_do_not_vote_and_cannot_be_read() {
        let lanes: Vec<_> = (32..64).map(|l| (l, request(Operation::Ballot, (l % 2) as u64, 0, 0))).collect();
        assert_eq!(results(&lanes).ok().map(|r| r[0]), Some(0xaaaa_aaaa_0000_0000));
        let lanes: Vec<_> = (32..64).map(|l| (l, request(Operation::ShuffleXor, 1, 32, 64))).collect();
        let (lane, finding) = results(&lanes).expect_err("lane 0 does not take part");
        assert!(lane == 0 && finding.text.contains("lane 32 shuffles from lane 0"), "{}", finding.text);
        for (width, fits) in [(64, true), (32, true), (1, true), (0, false), (-1, false), (48, false), (128, false)] {
            assert_eq!(request(Operation::Shuffle, 0, 0, width).check(64).is_ok(), fits, "{width}");
        }
    }
}
