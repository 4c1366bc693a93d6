# Shorthands for what the README and CONTRIBUTING.md say in full.

# All tests, Argo CD's included where Go is installed
test:
    cargo test --locked

# Format, lints and shape, as CI sees them
lint:
    cargo fmt --check
    cargo clippy --all-targets --locked -- -D warnings

# Licences, sources and duplicate versions of dependencies
deny:
    cargo deny check licenses bans sources

# One fuzz target for a while: `just fuzz yaml 300`
fuzz target seconds="60":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none {{target}} -- -max_total_time={{seconds}}

# Beside argocd-cmp-server, in one run
bench:
    cargo build --release --locked
    cd tests/interop && CMP_SUPERVISOR_BIN={{justfile_directory()}}/target/release/cmp-supervisor go run ./cmd/bench

# The static binary that the image holds
static:
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target x86_64-unknown-linux-gnu
