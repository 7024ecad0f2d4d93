//! Tasks on all cores. Tasks are closures behind `dyn`, so that rayon's code is compiled once here and not for each use, which would be a sixth of the library's code.
//!
//! No result depends on which core runs a task, and when: tasks have a fixed size, and their results are returned in their order.

use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// As many tasks as run at once.
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// Runs `task` for each number below `count`. If one panics, the caller panics once the running tasks have ended.
pub(crate) fn for_each(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(task);
}

/// The results of `task` for each number below `count`, in ascending order.
pub(crate) fn map<R: Send>(count: usize, task: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    chunks_mut(&mut results, 1, |i, result| result[0] = Some(task(i)));
    results.into_iter().flatten().collect()
}

/// Gives `task` all parts of `size` elements, the last of which may be shorter, with their numbers.
///
/// # Panics
/// `size` is 0.
pub(crate) fn chunks_mut<T: Send>(all: &mut [T], size: usize, task: impl Fn(usize, &mut [T]) + Sync) {
    // Each lock is taken once: it only shows the compiler that no two tasks have the same part.
    let parts: Vec<Mutex<&mut [T]>> = all.chunks_mut(size).map(Mutex::new).collect();
    for_each(parts.len(), &|i| task(i, &mut parts[i].lock().unwrap_or_else(PoisonError::into_inner)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        assert_eq!(map(1000, |i| i * i), (0..1000).map(|i| i * i).collect::<Vec<_>>());
        assert!(map(0, |i| i).is_empty());
    }

    #[test]
    fn parts_are_those_of_chunks() {
        let mut found = [0; 10];
        chunks_mut(&mut found, 4, |number, part| {
            let length = part.len();
            part.iter_mut().enumerate().for_each(|(i, x)| *x = 100 * number + 10 * length + i);
        });
        assert_eq!(found, [40, 41, 42, 43, 140, 141, 142, 143, 220, 221]);
    }

    #[test]
    #[should_panic(expected = "task 3")]
    fn a_panic_is_the_callers() {
        for_each(8, &|i| assert_ne!(i, 3, "task 3"));
    }
}
