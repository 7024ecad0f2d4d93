//! Patterns of names: `*` matches any characters or none, `?` one, and everything else itself. Names of tensors have brackets, as `layers[0].weight`, so that there are no classes of characters.

/// A pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl From<&str> for Pattern {
    fn from(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }
}

impl Pattern {
    /// The pattern as it was given.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole name fits: the last `*` takes one character more whenever what follows it does not fit, so that the time is at most that of the product of both lengths.
    pub(super) fn matches(&self, name: &str) -> bool {
        let [pattern, name]: [Vec<char>; 2] = [&self.0, name].map(|text| text.chars().collect());
        let (mut p, mut n) = (0, 0);
        // Behind the last `*`, and behind what it takes.
        let mut star = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    p += 1;
                    star = Some((p, n));
                }
                Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
                _ => {
                    let Some((behind, taken)) = star else { return false };
                    star = Some((behind, taken + 1));
                    (p, n) = (behind, taken + 1);
                }
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stars_and_question_marks_are_special() {
        for (pattern, fits, not) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "a.b/c\n"], &[]),
            ("**.weight", &["a.weight", ".weight"], &["weight", "a.weights"]),
            ("layers[0].weight", &["layers[0].weight"], &["layers0.weight"]),
            ("*[!0]*", &["a[!0]b"], &["a1b"]),
            ("params['w']", &["params['w']"], &["paramsw"]),
            ("x?", &["x1", "xä"], &["x", "x12"]),
            ("a*b*c", &["abc", "abbc", "a.b.b.c", "axbcbc"], &["acb", "ab", "abcd"]),
            ("*.*", &["a.b", "."], &["a"]),
            ("a?*", &["ab", "abc"], &["a"]),
        ] {
            let pattern = Pattern::from(pattern);
            fits.iter().for_each(|name| assert!(pattern.matches(name), "{pattern:?} {name}"));
            not.iter().for_each(|name| assert!(!pattern.matches(name), "{pattern:?} {name}"));
        }
        // No exponential search.
        assert!(!Pattern::from("*a*a*a*a*a*a*a*a*a*a*b").matches(&"a".repeat(1000)));
    }
}
