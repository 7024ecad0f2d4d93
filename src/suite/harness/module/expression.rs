//! Small expressions of a problem's numbers, such as `ceil(m/16) * batch`: how large a grid is, and what a kernel is told.
//!
//! ```text
//! expression = term   { ("+" | "-") term }
//! term       = factor { ("*" | "/") factor }
//! factor     = "-" factor | number | name | "(" expression ")" | function "(" expression { "," expression } ")"
//! function   = "ceil" | "floor" | "min" | "max"
//! ```
//!
//! Arithmetic is that of fractions of whole numbers of 128 bits, exact: `/` does not round, so `ceil(m/16)` is what it says, and `m/16` is an error where 16 does
//! not divide m. Whatever cannot be computed is an error in words: overflow, a division by zero, a name that the problem does not have.

use super::super::keys::suggestion;
use std::fmt;

/// The most characters of an expression: what bounds its depth as well.
const LONGEST: usize = 200;

/// An expression, read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(i128),
    Name(String),
    Negative(Box<Node>),
    Two(Operator, Box<[Node; 2]>),
    Call(Function, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    Ceil,
    Floor,
    Min,
    Max,
}

const FUNCTIONS: [(&str, Function); 4] =
    [("ceil", Function::Ceil), ("floor", Function::Floor), ("min", Function::Min), ("max", Function::Max)];

/// Why an expression has no value.
#[derive(Debug)]
enum Fault {
    Overflow,
    DivisionByZero,
    UnknownName(String),
}

/// A fraction in lowest terms, its denominator positive.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    /// Reads an expression. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Expression, String> {
        if text.len() > LONGEST {
            return Err(format!("an expression of {} characters, of at most {LONGEST}", text.len()));
        }
        let mut reader = Reader { rest: text.trim_start() };
        let read = reader.expression().and_then(|root| match reader.rest {
            "" => Ok(root),
            rest => Err(format!("`{rest}` is left over")),
        });
        match read {
            Ok(root) => Ok(Expression { text: text.trim().to_owned(), root }),
            Err(reason) => Err(format!("`{text}` is no expression: {reason}")),
        }
    }

    /// Its value, which has to be whole.
    pub(crate) fn whole(&self, numbers: &[(&str, u64)]) -> Result<i128, String> {
        let value = self.fraction(numbers)?;
        if value.denominator == 1 {
            return Ok(value.numerator);
        }
        let exact = format!("{}/{}", value.numerator, value.denominator);
        Err(format!("`{self}` is {exact}, not a whole number; ceil(...) and floor(...) make one of it"))
    }

    /// Its value, rounded to the nearest f64 where numerator and denominator are numbers of f64.
    pub(crate) fn real(&self, numbers: &[(&str, u64)]) -> Result<f64, String> {
        let value = self.fraction(numbers)?;
        Ok(value.numerator as f64 / value.denominator as f64)
    }

    fn fraction(&self, numbers: &[(&str, u64)]) -> Result<Fraction, String> {
        value(&self.root, numbers).map_err(|fault| match fault {
            Fault::Overflow => format!("`{self}` overflows"),
            Fault::DivisionByZero => format!("`{self}` divides by zero"),
            Fault::UnknownName(name) => {
                format!("`{self}`: this problem has no number `{name}`; {}", suggestion(&name, numbers.iter().map(|(name, _)| *name)))
            }
        })
    }
}

/// Reads from the front of a text, which begins with no space.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest.trim_start();
        taken
    }

    /// The operator of the next character, which is taken if it is one of these.
    fn operator(&mut self, known: [(char, Operator); 2]) -> Option<Operator> {
        let found = known.into_iter().find(|(sign, _)| self.rest.starts_with(*sign))?.1;
        self.skip(1);
        Some(found)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.rest.starts_with(sign) {
            self.skip(1);
            return Ok(());
        }
        Err(format!("`{sign}` is missing before `{}`", self.rest))
    }

    fn expression(&mut self) -> Result<Node, String> {
        let mut left = self.term()?;
        while let Some(operator) = self.operator([('+', Operator::Add), ('-', Operator::Subtract)]) {
            left = Node::Two(operator, Box::new([left, self.term()?]));
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<Node, String> {
        let mut left = self.factor()?;
        while let Some(operator) = self.operator([('*', Operator::Multiply), ('/', Operator::Divide)]) {
            left = Node::Two(operator, Box::new([left, self.factor()?]));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node, String> {
        let word = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        match self.rest.chars().next() {
            None => Err("it ends where a number or a name should be".to_owned()),
            Some('-') => {
                self.skip(1);
                Ok(Node::Negative(Box::new(self.factor()?)))
            }
            Some('(') => {
                self.skip(1);
                let inner = self.expression()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => {
                let digits = self.skip(word);
                digits.parse().map(Node::Number).map_err(|_| format!("`{digits}` is no whole number of at most 127 bits"))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let name = self.skip(word);
                if self.rest.starts_with('(') { self.call(name) } else { Ok(Node::Name(name.to_owned())) }
            }
            Some(_) => Err(format!("`{}` begins with neither a number nor a name", self.rest)),
        }
    }

    fn call(&mut self, name: &str) -> Result<Node, String> {
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            return Err(format!("unknown function `{name}`; {}", suggestion(name, FUNCTIONS.iter().map(|(known, _)| *known))));
        };
        self.expect('(')?;
        let mut arguments = vec![self.expression()?];
        while self.rest.starts_with(',') {
            self.skip(1);
            arguments.push(self.expression()?);
        }
        self.expect(')')?;
        match (function, arguments.len()) {
            (Function::Ceil | Function::Floor, 1) | (Function::Min | Function::Max, 2..) => Ok(Node::Call(*function, arguments)),
            (Function::Ceil | Function::Floor, count) => Err(format!("`{name}` takes one number, not {count}")),
            (Function::Min | Function::Max, _) => Err(format!("`{name}` takes two numbers or more")),
        }
    }
}

fn value(node: &Node, numbers: &[(&str, u64)]) -> Result<Fraction, Fault> {
    match node {
        Node::Number(number) => Ok(Fraction { numerator: *number, denominator: 1 }),
        Node::Name(name) => match numbers.iter().find(|(known, _)| known == name) {
            Some((_, number)) => Ok(Fraction { numerator: i128::from(*number), denominator: 1 }),
            None => Err(Fault::UnknownName(name.clone())),
        },
        Node::Negative(inner) => {
            let Fraction { numerator, denominator } = value(inner, numbers)?;
            Ok(Fraction { numerator: numerator.checked_neg().ok_or(Fault::Overflow)?, denominator })
        }
        Node::Two(operator, sides) => {
            let (a, b) = (value(&sides[0], numbers)?, value(&sides[1], numbers)?);
            if *operator == Operator::Divide && b.numerator == 0 {
                return Err(Fault::DivisionByZero);
            }
            a.with(*operator, b).ok_or(Fault::Overflow)
        }
        Node::Call(function, arguments) => {
            let values = arguments.iter().map(|argument| value(argument, numbers)).collect::<Result<Vec<_>, _>>()?;
            let mut rest = values.into_iter();
            let Some(first) = rest.next() else { return Err(Fault::Overflow) };
            rest.try_fold(first.rounded(*function), |best, next| best.extreme(*function, next)).ok_or(Fault::Overflow)
        }
    }
}

impl Fraction {
    /// In lowest terms. `None` for a denominator of 0 and for what 128 bits do not hold.
    fn new(numerator: i128, denominator: i128) -> Option<Fraction> {
        let (mut a, mut b) = (numerator.checked_abs()?, denominator.checked_abs()?);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = a.checked_mul(denominator.signum()).filter(|&d| d != 0)?;
        Some(Fraction { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    fn with(self, operator: Operator, other: Fraction) -> Option<Fraction> {
        let (a, b, c, d) = (self.numerator, self.denominator, other.numerator, other.denominator);
        match operator {
            Operator::Add => Fraction::new(a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?),
            Operator::Subtract => Fraction::new(a.checked_mul(d)?.checked_sub(c.checked_mul(b)?)?, b.checked_mul(d)?),
            Operator::Multiply => Fraction::new(a.checked_mul(c)?, b.checked_mul(d)?),
            Operator::Divide => Fraction::new(a.checked_mul(d)?, b.checked_mul(c)?),
        }
    }

    /// Rounded, where the function does that.
    fn rounded(self, function: Function) -> Fraction {
        let below = self.numerator.div_euclid(self.denominator);
        let numerator = match function {
            Function::Floor => below,
            // A fraction that is not whole is less than half of the largest number.
            Function::Ceil => below + i128::from(self.denominator != 1),
            Function::Min | Function::Max => return self,
        };
        Fraction { numerator, denominator: 1 }
    }

    fn extreme(self, function: Function, other: Fraction) -> Option<Fraction> {
        let difference = self.with(Operator::Subtract, other)?.numerator;
        let first = if function == Function::Min { difference <= 0 } else { difference >= 0 };
        Some(if first { self } else { other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [(&str, u64); 4] = [("m", 72), ("n", 64), ("zero", 0), ("huge", u64::MAX)];

    #[test]
    fn expressions_have_their_values() {
        for (text, expected) in [
            ("7", 7),
            (" m ", 72),
            ("m - n - 1", 7),
            ("2+3*4", 14),
            ("(2+3)*4", 20),
            ("-m + 73", 1),
            ("m/8", 9),
            ("m/5*5", 72),
            ("ceil(m/16)", 5),
            ("floor(m/16)", 4),
            ("ceil(-m/16)", -4),
            ("floor(-m/16)", -5),
            ("ceil(m/8)", 9),
            ("ceil(m/16) * ceil(n/16)", 20),
            ("min(m, n, 70)", 64),
            ("max(m, n, 70)", 72),
            ("max(1/3, 1/2) * 2", 1),
            ("min(ceil(m/256), 65535)", 1),
            ("huge*m/huge", 72),
        ] {
            assert_eq!(Expression::parse(text).unwrap().whole(&NUMBERS), Ok(expected), "{text}");
        }
        assert_eq!(Expression::parse("1/n").unwrap().real(&NUMBERS), Ok(0.015625));
    }

    #[test]
    fn what_has_no_value_says_why() {
        let deep = "(".repeat(300);
        for (text, words) in [
            ("", "ends where a number or a name should be"),
            ("m +", "ends where"),
            ("m n", "`n` is left over"),
            ("(m", "`)` is missing"),
            ("m$", "`$` is left over"),
            ("*m", "neither a number nor a name"),
            ("16x", "`16x` is no whole number"),
            ("340282366920938463463374607431768211456", "no whole number"),
            ("ceiling(m)", "unknown function `ceiling`; known: ceil"),
            ("ceil(m, n)", "takes one number, not 2"),
            ("min(m)", "takes two numbers or more"),
            (deep.as_str(), "of at most 200"),
            ("m/16", "`m/16` is 9/2, not a whole number; ceil("),
            ("m/zero", "divides by zero"),
            ("m/(n-64)", "divides by zero"),
            ("huge*huge*huge", "overflows"),
            ("mm", "no number `mm`; did you mean `m`? known: m n zero huge"),
        ] {
            let error = Expression::parse(text).and_then(|e| e.whole(&NUMBERS)).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
