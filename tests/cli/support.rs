//! What all tests of the program share: a folder in which it runs, what a run left, and files to read.

use std::path::PathBuf;
use std::process::Command;

/// What a run left.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(output: std::process::Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The lines with single spaces.
    pub fn lines(&self) -> Vec<String> {
        self.out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}

/// A folder for the files of one test, and runs inside it.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn run(&self, line: &str) -> Run {
        self.run_with(line, &[])
    }

    pub fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command.args(line.split_whitespace()).current_dir(self.0.path()).envs(variables.iter().copied());
        Run::of(command.output().unwrap())
    }

    /// A run with a file as standard input.
    pub fn run_on(&self, input: &str, line: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(std::fs::File::open(self.path(input)).unwrap());
        Run::of(command.output().unwrap())
    }

    /// Runs what must be refused: code 2, nothing on stdout, one line on stderr.
    pub fn refused(&self, line: &str, words: &str) {
        let run = self.run(line);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{line}: {}", run.err);
        assert!(run.err.starts_with("error: ") && run.err.contains(words), "{line}: {}", run.err);
        assert!(run.err.lines().count() == 1 || run.err.contains("--help"), "{line}: {}", run.err);
    }

    pub fn json(&self, line: &str) -> (i32, serde_json::Value) {
        let run = self.run(line);
        (run.code, serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{line}: {e}: {} {}", run.out, run.err)))
    }
}

pub fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

pub fn npy_f32(values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy("<f4", "False", &format!("({},)", values.len()), &data)
}

pub fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend(bytes);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Whether a value has the type that a schema says, and those below it theirs; an object has what is required, and nothing that the schema does not know.
pub fn has_type(value: &serde_json::Value, schema: &serde_json::Value, root: &serde_json::Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return has_type(value, root.pointer(&reference[1..]).unwrap(), root, at);
    }
    let kind = match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Number(n) if n.is_f64() => "number",
        serde_json::Value::Number(_) => "integer",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    };
    let types: Vec<&str> = schema["type"]
        .as_array()
        .map_or_else(|| schema["type"].as_str().into_iter().collect(), |all| all.iter().filter_map(|t| t.as_str()).collect());
    let fits = types.is_empty() || types.contains(&kind) || kind == "integer" && types.contains(&"number");
    assert!(fits && schema["enum"].as_array().is_none_or(|all| all.contains(value)), "{at}: {value} is none of {schema}");
    value.as_array().into_iter().flatten().for_each(|item| has_type(item, &schema["items"], root, at));
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, value) in object {
            has_type(
                value,
                properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not in the schema")),
                root,
                &format!("{at}.{name}"),
            );
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
            assert!(object.contains_key(name), "{at} lacks {name}");
        }
    }
}
