# Short forms of the commands in the README and CONTRIBUTING.md.

# All tests; if Go is installed, including those against Argo CD
test:
    cargo test --locked

# Format and lints, as in CI
lint:
    cargo fmt --check
    cargo clippy --all-targets --locked -- -D warnings

# Licences, sources and duplicate versions of dependencies
deny:
    cargo deny check licenses bans sources

# One fuzz target for some seconds: `just fuzz yaml 300`
fuzz target seconds="60":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none {{target}} -- -max_total_time={{seconds}}

# Comparison with argocd-cmp-server in one run
bench:
    cargo build --release --locked
    cd tests/interop && CMP_SUPERVISOR_BIN={{justfile_directory()}}/target/release/cmp-supervisor go run ./cmd/bench

# The static binary of the image
static:
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target x86_64-unknown-linux-gnu
