//! The numbers of `docs/tolerances.md` and `docs/causes.md` are those that the example `detection` measures: its samples are made again.

#[path = "../examples/detection/broken/mod.rs"]
mod broken;
#[path = "../examples/detection/causes.rs"]
#[allow(dead_code)] // What the sample does not print.
mod causes;
#[path = "../examples/detection/correct.rs"]
mod correct;
#[path = "../examples/detection/problem.rs"]
mod problem;
#[path = "../examples/detection/rules.rs"]
mod rules;
#[path = "../examples/detection/table.rs"]
#[allow(dead_code)] // What the sample does not print.
mod table;

/// What stands between the markers of a page.
fn part<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n"))?;
    Some(rest.split_once(&format!("<!-- end of {name} -->"))?.0)
}

#[test]
fn causes_are_right_as_often_as_the_page_says() {
    let page = include_str!("../docs/causes.md");
    for (by, name) in [(causes::By::Comparison, "sample"), (causes::By::Check, "checked sample")] {
        assert_eq!(
            Some(causes::measured(by, true, causes::SEEDS[0]).unwrap().as_str()),
            part(page, name),
            "run `cargo run --release --example detection -- --causes`"
        );
    }
}

#[test]
fn the_sample_is_what_the_page_says() {
    let page = include_str!("../docs/tolerances.md");
    let part = |name: &str| part(page, name).unwrap();
    assert_eq!(table::measure(&table::sample()).unwrap().table(), part("sample"), "run `cargo run --release --example detection`");
    assert_eq!(broken::listed(), part("zoo"), "run `cargo run --release --example detection`");
    let rows = part("table").lines().filter(|line| line.contains('/'));
    let names: Vec<&str> = rows.filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    let expected: Vec<String> = rules::all().into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, expected, "a rule was added: run `cargo run --release --example detection`");
    assert!(broken::all().count() >= 40);
}
