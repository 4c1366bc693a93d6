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
# The bill of materials is made of the binary and Cargo.lock.
COPY .ci/sbom ./.ci/sbom
RUN command -v jq >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends jq && rm -rf /var/lib/apt/lists/*; }
# Links glibc statically, because musl's allocator halves the speed of YAML.
# Static glibc cannot look up users or hosts; cmp-supervisor does neither.
# As in .ci/release, messages of panics name no directory of the machine that builds.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    target="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=/src=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
    cargo build --release --locked --target "$target" \
 && cp "target/$target/release/cmp-supervisor" /cmp-supervisor \
 && mkdir -p /sbom && .ci/sbom /cmp-supervisor "$target" > /sbom/cmp-supervisor.cdx.json
# Names for the UIDs of requests: ssh and other programs need them.
RUN mkdir -p /accounts \
 && { echo 'root:x:0:0:root:/:/sbin/nologin'; echo 'argocd:x:999:999:argocd:/:/sbin/nologin'; \
      /cmp-supervisor passwd; } > /accounts/passwd \
 && { echo 'root:x:0:'; echo 'argocd:x:999:'; /cmp-supervisor passwd --group; } > /accounts/group

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="cmp-supervisor" \
      org.opencontainers.image.description="All config management plugins of Argo CD in one sidecar" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /cmp-supervisor /cmp-supervisor
COPY --from=build /accounts/ /etc/
COPY --from=build /sbom/ /usr/share/sbom/
# For static programs that an image volume or an init container adds.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# As root with SETUID and SETGID, it gives each request its own UID and switches
# to UID 999 itself. Under another UID, requests share that UID. `RUN_AS=999:999`
# makes the image for Pods with `runAsNonRoot` and without `runAsUser`.
ARG RUN_AS=0:0
USER ${RUN_AS}
ENTRYPOINT ["/cmp-supervisor"]
CMD ["serve"]
