//! Pickles as PyTorch writes them, read without executing anything: a stack, a memo, tensors and containers. A class is a name here; what it or a function would make of its arguments,
//! apart from tensors, is an object that holds them. An opcode beyond these is an error that names it.

use crate::files::npy::MAX_DIMENSIONS;
use std::rc::Rc;

/// A pickle that was read.
pub(super) struct Pickle {
    pub(super) root: Value,
    /// What containers hold; of a dictionary keys and values in turn. They stand beside each other, as a pickle may nest them as deep as it is long,
    /// or in a circle.
    pub(super) containers: Vec<Vec<Value>>,
}

/// What a pickle holds. A container is the number of its place in [`Pickle::containers`].
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    /// Nothing, a truth value, a number or bytes: what no tensor is made of.
    Other,
    Text(Rc<str>),
    Tuple(usize),
    List(usize),
    Dict(usize),
    Class(Rc<Class>),
    Object(Rc<Object>),
    Storage(Rc<Storage>),
    Tensor(Rc<Strided>),
}

/// A class or a function, by name. Both names are those of the pickle's texts, which a few bytes may name again and again.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) module: Rc<str>,
    pub(super) name: Rc<str>,
}

/// What a class that means nothing here would make.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) class: Rc<Class>,
    /// The container of arguments, items and attributes.
    pub(super) parts: usize,
    /// The container of keys and values in turn that it holds as a dictionary does.
    pub(super) pairs: usize,
}

/// Memory that tensors share.
#[derive(Debug)]
pub(super) struct Storage {
    /// The class, such as `torch.FloatStorage`.
    pub(super) class: Rc<Class>,
    /// The name of its file.
    pub(super) key: Rc<str>,
}

/// A tensor in a storage; sizes in elements.
#[derive(Debug)]
pub(super) struct Strided {
    pub(super) storage: Rc<Storage>,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<isize>,
    /// The element type, where the storage does not say.
    pub(super) dtype: Option<Rc<Class>>,
    /// Why its values are not those in memory, such as those of a lazy conjugate.
    pub(super) unlike_memory: Option<String>,
}

/// Reads a pickle.
pub(super) fn read(bytes: &[u8]) -> Result<Pickle, String> {
    Machine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: Vec::new(), containers: Vec::new() }.run()
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    containers: Vec<Vec<Value>>,
}

impl<'a> Machine<'a> {
    fn run(mut self) -> Result<Pickle, String> {
        loop {
            let start = self.at;
            let opcode = self.take(1)?[0];
            if opcode == b'.' {
                return Ok(Pickle { root: self.pop()?, containers: self.containers });
            }
            self.step(opcode).map_err(|e| format!("byte {start}: {e}"))?;
        }
    }

    fn step(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            0x80 => drop(self.take(1)?), // PROTO
            0x95 => drop(self.take(8)?), // FRAME
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'N' | 0x88 | 0x89 => self.stack.push(Value::Other), // None, True, False
            b'K' => self.integer(1)?,
            b'M' => self.integer(2)?,
            b'J' => {
                let bytes = self.array::<4>()?;
                self.stack.push(Value::Int(i32::from_le_bytes(bytes).into()));
            }
            0x8a => self.long(1)?,
            0x8b => self.long(4)?,
            b'G' => {
                self.take(8)?;
                self.stack.push(Value::Other);
            }
            b'X' => self.text(4)?,
            0x8c => self.text(1)?,
            0x8d => self.text(8)?,
            b'B' | b'T' => self.skipped(4)?,
            0x8e | 0x96 => self.skipped(8)?,
            b'C' | b'U' => self.skipped(1)?,
            b'q' => self.put(1)?,
            b'r' => self.put(4)?,
            0x94 => self.remember(self.memo.len())?,
            b'h' => self.get(1)?,
            b'j' => self.get(4)?,
            b'c' => self.global()?,
            0x93 => self.stack_global()?,
            b'Q' => self.persistent()?,
            b'R' | 0x81 => self.call()?, // REDUCE, NEWOBJ
            0x92 => {
                let named = self.pop()?;
                self.call()?;
                self.attributes(named)?;
            }
            b'b' => {
                let state = self.pop()?;
                self.attributes(state)?;
            }
            _ => return self.container(opcode),
        }
        Ok(())
    }

    fn container(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            b')' => self.hold(Vec::new(), Value::Tuple),
            b']' | 0x8f => self.hold(Vec::new(), Value::List), // a set is a list here
            b'}' => self.hold(Vec::new(), Value::Dict),
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or("the stack is empty")?;
                let items = self.stack.split_off(from);
                self.hold(items, Value::Tuple);
            }
            b't' | 0x91 => {
                let items = self.since_mark()?;
                self.hold(items, Value::Tuple);
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.since_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(vec![key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.insert(items)?;
            }
            other => return Err(format!("opcode {other:#04x} is not one of tensors and containers")),
        }
        Ok(())
    }

    /// Puts a new container on the stack.
    fn hold(&mut self, items: Vec<Value>, kind: fn(usize) -> Value) {
        self.stack.push(kind(self.containers.len()));
        self.containers.push(items);
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("{n} bytes at byte {} exceed the pickle's {}", self.at, self.bytes.len()))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// An unsigned number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<usize, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
    }

    fn integer(&mut self, bytes: usize) -> Result<(), String> {
        let n = self.number(bytes)?;
        self.stack.push(Value::Int(n as i64));
        Ok(())
    }

    /// Two's complement of any length; beyond 64 bits it is no size of a tensor.
    fn long(&mut self, length: usize) -> Result<(), String> {
        let length = self.number(length)?;
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut full = [if negative { 0xff } else { 0 }; 8];
        if length > full.len() {
            self.stack.push(Value::Other);
            return Ok(());
        }
        full[..length].copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(full)));
        Ok(())
    }

    fn text(&mut self, length: usize) -> Result<(), String> {
        let n = self.number(length)?;
        let text = std::str::from_utf8(self.take(n)?).map_err(|e| format!("text: {e}"))?;
        self.stack.push(Value::Text(text.into()));
        Ok(())
    }

    fn skipped(&mut self, length: usize) -> Result<(), String> {
        let n = self.number(length)?;
        self.take(n)?;
        self.stack.push(Value::Other);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, String> {
        // What lies under a mark belongs to the opcode that takes the mark.
        let least = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= least {
            return Err("the stack is empty".to_owned());
        }
        self.stack.pop().ok_or_else(|| "the stack is empty".to_owned())
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().ok_or("no mark")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn put(&mut self, bytes: usize) -> Result<(), String> {
        let n = self.number(bytes)?;
        self.remember(n)
    }

    fn remember(&mut self, n: usize) -> Result<(), String> {
        // Each entry is written by an opcode: there are no more than bytes.
        if n > self.bytes.len() {
            return Err(format!("memo {n} of a pickle of {} bytes", self.bytes.len()));
        }
        let value = self.stack.last().cloned().ok_or("the stack is empty")?;
        if self.memo.len() <= n {
            self.memo.resize(n + 1, None);
        }
        self.memo[n] = Some(value);
        Ok(())
    }

    fn get(&mut self, bytes: usize) -> Result<(), String> {
        let n = self.number(bytes)?;
        let value = self.memo.get(n).cloned().flatten().ok_or_else(|| format!("memo {n} was not written"))?;
        self.stack.push(value);
        Ok(())
    }

    fn extend(&mut self, items: Vec<Value>) -> Result<(), String> {
        match self.stack.last() {
            Some(Value::List(list)) => self.containers[*list].extend(items),
            Some(Value::Object(object)) => self.containers[object.parts].extend(items),
            _ => return Err("items of what is no list".to_owned()),
        }
        Ok(())
    }

    fn insert(&mut self, items: Vec<Value>) -> Result<(), String> {
        let pairs = match self.stack.last() {
            Some(Value::Dict(dict)) => *dict,
            Some(Value::Object(object)) => object.pairs,
            _ => return Err("pairs of what is no dictionary".to_owned()),
        };
        if !items.len().is_multiple_of(2) {
            return Err("a key without a value".to_owned());
        }
        self.containers[pairs].extend(items);
        Ok(())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let length = self.bytes[self.at..].iter().position(|&b| b == b'\n').ok_or("a line does not end")?;
        let line = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(line).map_err(|e| format!("a name: {e}"))
    }

    fn global(&mut self) -> Result<(), String> {
        let (module, name) = (self.line()?.into(), self.line()?.into());
        self.stack.push(Value::Class(Rc::new(Class { module, name })));
        Ok(())
    }

    fn stack_global(&mut self) -> Result<(), String> {
        match (self.pop()?, self.pop()?) {
            (Value::Text(name), Value::Text(module)) => self.stack.push(Value::Class(Rc::new(Class { module, name }))),
            _ => return Err("a class without a name".to_owned()),
        }
        Ok(())
    }

    /// `('storage', class, key, device, elements)`.
    fn persistent(&mut self) -> Result<(), String> {
        let Value::Tuple(id) = self.pop()? else { return Err("a persistent id that is no tuple".to_owned()) };
        match &self.containers[id][..] {
            [Value::Text(kind), Value::Class(class), Value::Text(key), ..] if &**kind == "storage" => {
                let storage = Storage { class: class.clone(), key: key.clone() };
                self.stack.push(Value::Storage(Rc::new(storage)));
                Ok(())
            }
            _ => Err("a persistent id that is no storage".to_owned()),
        }
    }

    /// What a call of a class or a function makes: a tensor, a dictionary, or an object.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(items) = arguments else { return Err("a call with arguments that are no tuple".to_owned()) };
        let class = match &function {
            Value::Class(class) => class.clone(),
            // Something that was looked up in a class, or made.
            Value::Object(object) => object.class.clone(),
            _ => return Err("a call of what is no function".to_owned()),
        };
        let named = matches!(function, Value::Class(_));
        if named && self.containers[items].is_empty() && (&*class.module, &*class.name) == ("collections", "OrderedDict") {
            self.hold(Vec::new(), Value::Dict);
        } else if named && let Some(tensor) = self.rebuilt(&class, items)? {
            self.stack.push(tensor);
        } else {
            let parts = self.containers.len();
            self.containers.extend([vec![function, arguments], Vec::new()]);
            self.stack.push(Value::Object(Rc::new(Object { class, parts, pairs: parts + 1 })));
        }
        Ok(())
    }

    /// The tensor that one of PyTorch's functions makes of these arguments; none for other functions and for other arguments.
    fn rebuilt(&self, function: &Class, arguments: usize) -> Result<Option<Value>, String> {
        let arguments = &self.containers[arguments][..];
        Ok(Some(match (&*function.module, &*function.name, arguments) {
            (UTILS, "_rebuild_parameter" | "_rebuild_parameter_with_state", [data @ (Value::Tensor(_) | Value::Object(_)), ..]) => {
                data.clone()
            }
            (UTILS, "_rebuild_tensor_v2", [Value::Storage(storage), offset, shape, strides, rest @ ..]) => {
                let metadata = rest.get(REBUILD_2_METADATA..).unwrap_or_default();
                self.tensor(storage, [offset, shape, strides], None, metadata)?
            }
            (UTILS, "_rebuild_tensor_v3", [Value::Storage(storage), offset, shape, strides, _, _, Value::Class(dtype), metadata @ ..]) => {
                self.tensor(storage, [offset, shape, strides], Some(dtype.clone()), metadata)?
            }
            // A tensor that has attributes or a class of its own. Its function is one of the above: another one of this kind could hold the next, without end.
            ("torch._tensor", "_rebuild_from_type_v2", [Value::Class(inner), _, Value::Tuple(arguments), ..])
                if &*inner.module == UTILS =>
            {
                return self.rebuilt(inner, *arguments);
            }
            _ => return Ok(None),
        }))
    }

    fn tensor(
        &self,
        storage: &Rc<Storage>,
        [offset, shape, strides]: [&Value; 3],
        dtype: Option<Rc<Class>>,
        metadata: &[Value],
    ) -> Result<Value, String> {
        // A few bytes copy shape and strides once more.
        let numbers = |value: &Value| match value {
            Value::Tuple(items) => match &self.containers[*items][..] {
                items if items.len() > MAX_DIMENSIONS => Err(format!("{} dimensions, more than {MAX_DIMENSIONS}", items.len())),
                items => items.iter().map(number).collect::<Result<Vec<i64>, _>>(),
            },
            _ => Err("a shape that is no tuple".to_owned()),
        };
        let size = |n: i64| usize::try_from(n).map_err(|_| format!("{n} is no size"));
        let shape = numbers(shape)?.into_iter().map(size).collect::<Result<_, _>>()?;
        let strides = numbers(strides)?.into_iter().map(|n| n as isize).collect();
        let (offset, unlike_memory) = (size(number(offset)?)?, self.unlike_memory(metadata));
        Ok(Value::Tensor(Rc::new(Strided { storage: storage.clone(), offset, shape, strides, dtype, unlike_memory })))
    }

    /// What the last argument of a tensor says of its values: nothing, or a dictionary of what its memory does not show.
    fn unlike_memory(&self, metadata: &[Value]) -> Option<String> {
        let items = match metadata {
            [] | [Value::Other] => return None,
            [Value::Dict(items)] => &self.containers[*items],
            _ => return Some("has arguments of _rebuild_tensor that are not known".to_owned()),
        };
        let key = items.first()?;
        Some(match key {
            Value::Text(key) if matches!(&**key, "conj" | "neg") => {
                "is conjugated or negated lazily; save x.resolve_conj().resolve_neg() instead".to_owned()
            }
            Value::Text(key) => format!("has metadata `{key}`, which are not supported"),
            _ => "has metadata that are not supported".to_owned(),
        })
    }

    /// Attributes of what is on the stack, or arguments that have names. Those of a dictionary, such as the versions of modules, say nothing about tensors.
    fn attributes(&mut self, attributes: Value) -> Result<(), String> {
        match self.stack.last() {
            Some(Value::Dict(_)) => {}
            Some(Value::Object(object)) => self.containers[object.parts].push(attributes),
            _ => return Err("attributes of what is no object".to_owned()),
        }
        Ok(())
    }
}

impl Class {
    /// Bytes of the name.
    pub(super) fn length(&self) -> usize {
        self.module.len() + 1 + self.name.len()
    }

    /// Whether what it makes is a tensor, though none that is known here, such as a sparse one; NumPy's arrays are tensors, too.
    pub(super) fn makes_tensors(&self) -> bool {
        match self.module.split('.').next() {
            Some("torch") => self.name.starts_with("_rebuild_"),
            Some("numpy") => &*self.name == "_reconstruct",
            _ => false,
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.module, self.name)
    }
}

impl Pickle {
    /// Which containers hold a tensor, memory of one or what makes one, or lead to such a container.
    pub(super) fn with_tensors(&self) -> Vec<bool> {
        let mut found = vec![false; self.containers.len()];
        // From tensors outwards, so that each container is seen once, whatever holds what.
        let mut holders = vec![Vec::new(); self.containers.len()];
        for (holder, items) in self.containers.iter().enumerate() {
            for item in items {
                found[holder] |= match item {
                    Value::Tensor(_) | Value::Storage(_) => true,
                    Value::Object(object) => object.class.makes_tensors(),
                    _ => false,
                };
                let inside = match item {
                    Value::Tuple(at) | Value::List(at) | Value::Dict(at) => [Some(*at), None],
                    Value::Object(object) => [Some(object.parts), Some(object.pairs)],
                    _ => [None, None],
                };
                inside.into_iter().flatten().for_each(|at| holders[at].push(holder));
            }
        }
        let mut new: Vec<usize> = (0..found.len()).filter(|&at| found[at]).collect();
        while let Some(at) = new.pop() {
            for &holder in &holders[at] {
                if !std::mem::replace(&mut found[holder], true) {
                    new.push(holder);
                }
            }
        }
        found
    }
}

/// The module of the functions that make tensors of their memory.
const UTILS: &str = "torch._utils";
/// Where the metadata of `_rebuild_tensor_v2` are behind the strides: behind requires_grad and backward_hooks.
const REBUILD_2_METADATA: usize = 2;

fn number(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(n) => Ok(*n),
        _ => Err("a size that is no whole number".to_owned()),
    }
}
