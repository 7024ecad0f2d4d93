//! The `hipverify` program.

fn main() -> std::process::ExitCode {
    hipverify::cli::main()
}
