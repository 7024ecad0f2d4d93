//! Several comparisons of one call, and of one graph after the other.

use super::*;

#[test]
fn many_pairs_are_compared_as_each_alone() {
    let device = Device::host();
    let of = |x: &[f32]| DeviceMem::from_slice(&device, x).unwrap();
    let (one, two, long) = (of(&[1.0, 2.0]), of(&[1.0, 2.5]), of(&[4.0, 5.0, 6.0]));
    let (one, two, long) = (one.as_tensor(), two.as_tensor(), long.as_tensor());
    let exact = Tolerance::exact();
    let pairs = [
        (two.clone(), one.clone(), exact),
        (one.clone(), two.clone(), exact),
        (long.clone(), long.clone(), exact),
        (two.clone(), one.clone(), Tolerance::gemm::<f32, f32, f32>(1 << 23)),
        (one.clone(), one.clone(), exact),
    ];
    let options = Options::default().explain(Explain::Always);
    let alone = pairs.each_ref().map(|(a, r, t)| gpu_verify_with(a, r, t, &options).unwrap());
    assert_eq!(alone.each_ref().map(|r| r.mismatches), [1, 1, 0, 0, 0]);
    assert_eq!(alone.each_ref().map(|r| r.atol), [0.0, 0.0, 0.0, 1.0, 0.0], "half the largest magnitude of the reference");
    assert_eq!(gpu_verify_many(&pairs, &options).unwrap(), alone);
    assert_eq!(gpu_verify_many(&[], &options).unwrap(), []);
    // The first pair with an error is the one that is named.
    let bad = [pairs[0].clone(), (long.clone(), one, exact), (two, long, exact)];
    assert_eq!(gpu_verify_many(&bad, &options).unwrap_err().to_string(), "the result: shape [3] does not match [2]");
}

/// A graph has the workspace of its comparison no longer than it lives, and neither has one that never came to be.
#[test]
fn workspaces_of_graphs_come_back() {
    let device = Device::host();
    let (x, y) = (DeviceMem::from_slice(&device, &[1.0f32, 2.0]).unwrap(), DeviceMem::from_slice(&device, &[1.0f32, 2.5]).unwrap());
    let (exact, stream, other) = (Tolerance::exact(), Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut plan = VerifyPlan::new(&device, &Options::default()).unwrap();
    plan.reserve(DType::F32, DType::F32, 2).unwrap();
    let compare = |reason: &str| {
        let found = plan.enqueue(&stream, &x, &y, &exact).and_then(Pending::wait).unwrap_or_else(|e| panic!("{reason}: {e}"));
        assert_eq!(found.mismatches, 1, "{reason}");
    };
    let taken = || plan.enqueue(&other, &x, &y, &exact).unwrap_err().to_string().contains("in use");
    let failed = |fail: Error| {
        stream.capture(|capture| {
            let _recorded = plan.record(capture, &x, &y, &exact)?;
            assert!(taken(), "while it is recorded");
            Err::<(), _>(fail)
        })
    };
    let reason = Error::Unsupported { what: "more".to_owned(), by: "the test".to_owned() };
    assert_eq!(failed(reason).unwrap_err().to_string(), "more is not supported by the test");
    compare("after a recording that failed");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|capture| -> Result<()> {
            let _recorded = plan.record(capture, &x, &y, &exact)?;
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    compare("after a recording that panicked");
    for graph_first in [false, true] {
        let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &exact)).unwrap();
        assert!(recorded.report(&graph).is_err(), "what ran before is none of its outcomes");
        graph.launch(&stream).unwrap();
        assert_eq!(recorded.report(&graph).unwrap().mismatches, 1);
        assert!(taken(), "both are there");
        // An outcome that nobody asks for.
        graph.launch(&stream).unwrap();
        if graph_first {
            drop(graph);
            assert!(taken(), "the comparison is there");
            drop(recorded);
        } else {
            drop(recorded);
            assert!(taken(), "the graph is there");
            drop(graph);
        }
        let (graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &exact)).unwrap();
        assert!(recorded.report(&graph).is_err(), "nor is that of another graph");
        drop((graph, recorded));
        compare("after a graph");
    }
}
