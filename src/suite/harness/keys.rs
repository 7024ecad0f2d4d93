//! The keys that a suite file may have: one table, from which the reader, its messages and the schema for editors follow.

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A text, a number or a truth value; or a list of them, which makes the key an axis: each value gives a case.
    Axis,
    /// What an axis takes, or a table of the keys of a rule; or a list of these.
    Rule,
    /// One text, number or truth value.
    One,
    /// A list of texts.
    List,
    /// A table of numbers by name.
    Numbers,
    /// One text or number, or a list of up to three: extents in x, y and z.
    Extents,
    /// A path, or a table of paths by name.
    Paths,
    /// A list of tables that have these keys.
    Tables(&'static [Key]),
}

/// A key of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What it takes in words, and what holds without it.
    pub about: &'static str,
}

const fn axis(name: &'static str, about: &'static str) -> Key {
    Key { name, takes: Takes::Axis, about }
}

const fn one(name: &'static str, about: &'static str) -> Key {
    Key { name, takes: Takes::One, about }
}

/// What the cases of a table compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Matrix products.
    Gemm,
    /// Convolutions and their gradients.
    Conv,
    /// Operators of neural networks and their gradients.
    Operator,
    /// Runs of the fp16 study.
    Study,
}

impl TableKind {
    /// Every kind.
    pub const ALL: [TableKind; 4] = [TableKind::Gemm, TableKind::Conv, TableKind::Operator, TableKind::Study];

    /// The name of its tables, as in `[[gemm]]`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TableKind::Gemm => "gemm",
            TableKind::Conv => "conv",
            TableKind::Operator => "operator",
            TableKind::Study => "study",
        }
    }

    /// The key that says how large a problem is.
    #[must_use]
    pub const fn size_key(self) -> Option<&'static str> {
        match self {
            TableKind::Gemm | TableKind::Conv => Some("size"),
            TableKind::Operator => Some("shape"),
            TableKind::Study => None,
        }
    }

    /// The keys that only these tables have.
    #[must_use]
    pub const fn own_keys(self) -> &'static [Key] {
        match self {
            TableKind::Gemm => &GEMM,
            TableKind::Conv => &CONV,
            TableKind::Operator => &OPERATOR,
            TableKind::Study => &STUDY,
        }
    }

    /// The keys that these tables share with others.
    #[must_use]
    pub const fn shared_keys(self) -> &'static [&'static [Key]] {
        match self {
            TableKind::Gemm | TableKind::Conv => &[&TABLE, &TENSORS, &PRODUCTS],
            TableKind::Operator => &[&TABLE, &TENSORS],
            TableKind::Study => &[&TABLE],
        }
    }

    /// All keys of its tables.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        self.shared_keys().iter().copied().chain([self.own_keys()]).flatten()
    }

    /// The key of that name.
    #[must_use]
    pub fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }
}

/// Keys of every table.
pub const TABLE: [Key; 5] = [
    one("name", "the first part of its cases' names; the kind of table if it is not given"),
    Key { name: "groups", takes: Takes::List, about: "names by which --group selects its cases" },
    one("expected", "pass (default), untrusted, fail, or any"),
    Key { name: "limits", takes: Takes::Numbers, about: "the largest value that passes, by metric, such as { rms = 3e-5 }" },
    one("timeout", "seconds after which a case has failed; the run's --timeout if it is not given"),
];

/// Keys of tables whose kernels read tensors and write one.
pub const TENSORS: [Key; 7] = [
    axis("type", "number format of the inputs, or of both operands of gemm and conv, separated by ` | `; f16 if not given"),
    axis("output", "number format of the output; that of the inputs if not given and they have one, i64 for indices, u8 for comparisons"),
    axis(
        "data",
        "generator of the inputs as in `hipverify fill`, or one for each, separated by ` | `; uniform:-1,1 if not given, for integer formats int:-5,5, without a sign int:0,5. One is for all inputs but scales, which have uniform:0.5,2 if not given",
    ),
    axis("seed", "seed of the generator; 1 if not given"),
    axis("reference_type", "number format that the reference is rounded to; f64 if not given"),
    Key {
        name: "rule",
        takes: Takes::Rule,
        about: "rounding (if not given), exact, check (of gemm and conv, by bounds from the operands), a profile of `hipverify tolerance --list`, or keys as a text or a table: \"rtol=1e-3,allowed_share=0.1\", { rms = 1e-5 }, { check = true, arch = \"gfx90a\" }",
    },
    one("repeatable", "whether a second run must give the same bits; true if not given"),
];

/// Keys of tables whose kernels sum products.
pub const PRODUCTS: [Key; 2] = [
    axis(
        "kernel",
        "kernel under test: gfx908, gfx90a or gfx942 (the model of its matrix cores), sm_70 to sm_100 (of its tensor cores), fma, another arithmetic, each with @DEVICE where it is not the run's, or a name of [kernels]; fma if not given",
    ),
    axis(
        "reference",
        "arithmetic of the reference: f64 (if not given), f64-rounded, every4, groups4, f32, f32-fma, or a matrix core such as gfx90a:f16",
    ),
];

const GEMM: [Key; 8] = [
    axis("size", "M x N x K, or batch x M x N x K, such as 64x64x256"),
    axis("layout", "nn (if not given), nt, tn or tt: n for an operand as it is, t for a transposed one"),
    axis(
        "scale_a",
        "scales of A, an input `scale_a`: their format and blocks, such as f8e8m0:1x32 (rows and columns of A as it is stored), f8e8m0:k32 (along k), f32:128x128, f32:row, f32:column, f32:tensor; none if not given",
    ),
    axis("scale_b", "those of B, likewise"),
    axis("alpha", "the factor of A B; 1 if not given"),
    axis("beta", "the factor of C, an input `c` of the result's shape and format where it is not 0; 0 if not given"),
    axis("bias", "true adds an input `bias`, N numbers of the result's format, to every row; false if not given"),
    axis("activation", "none (if not given), or relu, after C and the bias are added"),
];

const CONV: [Key; 3] = [
    axis(
        "size",
        "dimensions, G, N, K, C of a group, then filter, input, strides, dilations, left and right pads: 2 1 8 16 16 3 3 14 14 1 1 1 1 1 1 1 1",
    ),
    axis("direction", "fwd (if not given), bwd_data or bwd_weight"),
    axis("layout", "layouts of input, filter and output, such as nhwgc,gkyxc,nhwgk; gnhwc,gkyxc,gnhwk if not given"),
];

const OPERATOR: [Key; 9] = [
    axis("operator", "names such as relu, softmax or layer_norm; `docs/operators.md` has all"),
    axis("pass", "forward (if not given) or gradient"),
    axis("gradient_of", "the input that a gradient is with respect to, such as weight; the first one if not given"),
    axis("shape", "extents of the inputs, such as 4x64; of matmul M x N x K, or batch x M x N x K; of attention batch x heads x seq x dim"),
    axis("axis", "the axis of reductions, softmax, norms, cumulative operators and interpolations; the last one, -1, if not given"),
    axis("parameters", "numbers of the operator's own, such as min=0,max=6 of clip; those that it has if nothing is said"),
    axis("causal", "true for an attention whose elements attend to none behind them; false if not given"),
    axis("resized", "the new extent of that axis for nearest, linear and cubic"),
    axis(
        "kernel",
        "kernel under test: f32 (if not given), native (rounds each step to the format of the result) or f64, each with a fault such as +short, or a name of [kernels]",
    ),
];

const STUDY: [Key; 7] = [
    axis("configuration", "names of the study's configurations (`hipverify replay --list`), or all"),
    axis("range", "r0 (if not given), r1, r4 or r5"),
    axis("arch", "gfx908 or gfx90a (if not given)"),
    axis("kernel", "xdlops (if not given) or nonxdlops"),
    axis("validator", "pv (if not given) or pv-with-gpu"),
    axis("variant", "first (if not given), second, accumulate4 or later"),
    axis("seed", "seed of the generator; 1 if not given"),
];

/// Keys of a launch of GPU code.
pub const LAUNCH: [Key; 5] = [
    one("function", "the kernel's name in the code: declare it extern \"C\""),
    Key {
        name: "grid",
        takes: Takes::Extents,
        about: "blocks in x, y and z: expressions of the problem's numbers, such as [\"ceil(n/16)\", \"ceil(m/16)\"]",
    },
    Key { name: "block", takes: Takes::Extents, about: "threads of a block in x, y and z, likewise" },
    one("shared_bytes", "dynamic shared memory of a block in bytes, likewise; 0 if not given"),
    Key {
        name: "arguments",
        takes: Takes::List,
        about: "the kernel's arguments in order: a buffer (a, b, c, bias, scale_a, scale_b, result, workspace), a number of the problem in i32 (m), or with its format (i64:m*k, f32:alpha, f32:1.5)",
    },
];

/// Keys of `[kernels.NAME]`; those of [`LAUNCH`] too where there is one launch.
pub const KERNEL: [Key; 12] = [
    Key {
        name: "command",
        takes: Takes::List,
        about: "a program and its arguments; it runs in an empty folder with INPUT.npy for each input and case.json, and writes result.npy there",
    },
    one("source", "a file of HIP source, which hipRTC compiles for the case's GPU"),
    Key {
        name: "code_object",
        takes: Takes::Paths,
        about: "a code object as hipcc --genco writes it, or several by architecture: { gfx90a = \"gemm.co\" }",
    },
    Key { name: "options", takes: Takes::List, about: "options of the compiler of `source`, such as -DTILE=16" },
    LAUNCH[0],
    LAUNCH[1],
    LAUNCH[2],
    LAUNCH[3],
    LAUNCH[4],
    Key {
        name: "launches",
        takes: Takes::Tables(&LAUNCH),
        about: "several launches in order, each a table with function, grid, block, shared_bytes and arguments, which the kernel then lacks",
    },
    one(
        "initial",
        "what the result holds before each run: poison (if not given), which tells unwritten elements, or zero, for kernels that add to it",
    ),
    one("workspace_bytes", "bytes of the buffer `workspace`, an expression as in grid; there is none if not given"),
];

/// Keys at the top of a file.
pub const TOP: [Key; 3] = [
    one("name", "the suite's name; that of the file if it is not given"),
    one("description", "what the suite is for"),
    Key { name: "include", takes: Takes::List, about: "suite files whose tables come first; paths count from this file" },
];

/// The names that look most like `found`, for a message.
#[must_use]
pub fn suggestion<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let nearest = known.iter().map(|name| (strsim::damerau_levenshtein(found, name), *name)).min();
    match nearest {
        Some((distance, name)) if distance <= 2.max(name.len() / 3) => format!("did you mean `{name}`? known: {}", known.join(" ")),
        _ => format!("known: {}", known.join(" ")),
    }
}
