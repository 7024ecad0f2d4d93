//! Workspaces: those of plans and those kept for comparisons that wait.

use super::check;
use super::pool::Pool;
use super::workspaces::Reserved;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::iter;

/// A plan with one workspace, and memory that kernels write while a comparison has it: `loom` fails when two do.
struct Plan {
    workspace: Reserved<u32>,
    scratch: UnsafeCell<u32>,
}

// SAFETY: `loom` finds whatever uses the memory while another thread does.
unsafe impl Sync for Plan {}

/// Comparisons of two threads in the same workspace, one after the other or only one of them.
#[test]
fn one_comparison_at_a_time_has_a_workspace() {
    check(|| {
        let plan = Arc::new(Plan { workspace: Reserved::new(0), scratch: UnsafeCell::new(0) });
        let compare = |plan: &Plan, of_a_graph: bool| {
            if !plan.workspace.take() {
                return 0;
            }
            let held = of_a_graph.then(|| plan.workspace.hold());
            *plan.workspace.lock() += 1;
            // SAFETY: this thread has the workspace.
            plan.scratch.with_mut(|scratch| unsafe { *scratch += 1 });
            match held {
                Some(held) => drop(held),
                None => plan.workspace.give_back(),
            }
            1
        };
        let other = {
            let plan = Arc::clone(&plan);
            thread::spawn(move || compare(&plan, false) + compare(&plan, true))
        };
        let compared = compare(&plan, true) + other.join().unwrap();
        assert!((1..=3).contains(&compared));
        // SAFETY: no other thread is left.
        let scratch = plan.scratch.with(|scratch| unsafe { *scratch });
        assert_eq!((*plan.workspace.lock(), scratch), (compared, compared), "each saw those before it");
        assert!(plan.workspace.take() && !plan.workspace.take());
    });
}

/// Each idle workspace is in one hand, and comes back as what it was.
#[test]
fn idle_workspaces_are_taken_once() {
    check(|| {
        let idle = Arc::new(Pool::new());
        idle.put("first");
        idle.put(1u8);
        let compare = |idle: &Pool, own: &'static str| {
            let taken = idle.take().unwrap_or(own);
            idle.put(taken);
        };
        let other = {
            let idle = Arc::clone(&idle);
            thread::spawn(move || compare(&idle, "second"))
        };
        compare(&idle, "third");
        other.join().unwrap();
        let mut all: Vec<&'static str> = iter::from_fn(|| idle.take()).collect();
        all.sort_unstable();
        assert!([vec!["first"], vec!["first", "second"], vec!["first", "third"]].contains(&all), "{all:?}");
        assert_eq!((idle.take::<u8>(), idle.take::<u8>()), (Some(1), None));
    });
}

#[test]
fn idle_workspaces_are_bounded_in_number() {
    check(|| {
        let pool = Pool::new();
        pool.put(1u8);
        (0..2 * Pool::MOST).for_each(|i| pool.put(i));
        assert_eq!(pool.take::<u8>(), None, "the oldest goes first");
        let left: Vec<usize> = iter::from_fn(|| pool.take()).collect();
        assert_eq!((left.len(), left[0]), (Pool::MOST, 2 * Pool::MOST - 1), "the last comes first");
    });
}
