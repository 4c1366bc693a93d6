# One static binary in an empty image. Plugins need tools: put the binary into
# an image that has them (COPY --from), or mount tools into its container.
#
# Uses only features that buildah 1.28 supports.
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto ./proto
COPY crates ./crates
COPY src ./src
# Not built, but Cargo.toml names them.
COPY tests ./tests
# `explain` prints from the documentation.
COPY docs ./docs
# Links glibc statically, because musl's allocator halves the speed of YAML.
# Static glibc cannot look up users or hosts; cmp-supervisor does neither.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    target="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --target "$target" \
 && cp "target/$target/release/cmp-supervisor" /cmp-supervisor
# Names for the UIDs of requests: ssh and other programs need them.
RUN mkdir -p /accounts \
 && { echo 'root:x:0:0:root:/:/sbin/nologin'; echo 'argocd:x:999:999:argocd:/:/sbin/nologin'; \
      /cmp-supervisor passwd; } > /accounts/passwd \
 && { echo 'root:x:0:'; echo 'argocd:x:999:'; /cmp-supervisor passwd --group; } > /accounts/group

FROM scratch
COPY --from=build /cmp-supervisor /cmp-supervisor
COPY --from=build /accounts/ /etc/
# As root with SETUID and SETGID, it gives each request its own UID and switches
# to UID 999 itself. Under another UID, requests share that UID.
ENTRYPOINT ["/cmp-supervisor"]
CMD ["serve"]
