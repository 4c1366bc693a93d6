# One static binary in an empty image. Plugins need tools: put the binary into
# an image that has them (COPY --from), or mount tools beside it.
#
# Stays within what buildah 1.28 understands.
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto ./proto
COPY crates ./crates
COPY src ./src
# `explain` prints from the documentation.
COPY docs ./docs
COPY benches ./benches
# glibc, linked statically: musl's allocator halves the speed of YAML. Nothing
# here asks for names of users or hosts, which is what static glibc cannot do.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    target="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --target "$target" \
 && cp "target/$target/release/cmp-supervisor" /cmp-supervisor

FROM scratch
COPY --from=build /cmp-supervisor /cmp-supervisor
# Started as root with SETUID and SETGID it leases a user to each request and
# becomes user 999 itself; started as another user it has less to lease.
ENTRYPOINT ["/cmp-supervisor"]
CMD ["serve"]
