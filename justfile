# Short names for the commands in the README and CONTRIBUTING.md.

# List the recipes
default:
    @just --list

# The inner loop: format, lints, unit tests and shape, in under 3 minutes once built
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo test --locked --workspace --lib --bins
    cargo test --locked --test tidy

# All tests; they include Argo CD's own where Go is installed
test:
    cargo test --locked

# The tests that use the built binary
product *names:
    cargo test --locked --test product -- {{names}}

# The attacks on the sandbox, as root; a name selects some
attacks *names:
    cargo test --locked --test attacks -- {{names}}

# The built binary in a container's limits, as root with runc
pod *names:
    cargo test --locked --test pod -- {{names}}

# The built binary in virtual machines with other kernels and cgroups v2
vm *names:
    tests/vm/fetch
    cargo test --locked --test vm -- {{names}}

# Argo CD's client, cmp-server and repo-server against the built binary; needs Go and redis-server
interop:
    cargo test --locked --test interop

# Documentation of the code, with every link checked
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

# Licences, sources and wildcards of dependencies, and dependencies without use
deny:
    cargo deny check licenses bans sources
    cargo machete

# One fuzz target for a while: `just fuzz yaml 300`
fuzz target seconds="60":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none {{target}} -- -max_total_time={{seconds}}

# cmp-supervisor and argocd-cmp-server in turns, in one run
bench:
    cargo build --release --locked
    cd tests/interop && CMP_SUPERVISOR_BIN={{justfile_directory()}}/target/release/cmp-supervisor go run ./cmd/bench

# The static binary for the image
static:
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target x86_64-unknown-linux-gnu

# The archive of a release in target/dist: binary, manual, completions, schema, bill of materials, manifests, checksum
release:
    .ci/release

# The release built twice, in two places: both archives must be the same
reproduce:
    .ci/reproduce

# The site of the documentation in target/book, with every link checked; needs mdbook, jq and python3.
# CMP_SUPERVISOR_SOURCE_URL is the address of the repository's files, for links to them
book:
    .ci/site

# The archive of a release for arm64, made on another machine; its binary is tried in a virtual machine, in every isolation.
# Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user-static and qemu-system-arm
arm64:
    .ci/arm64
