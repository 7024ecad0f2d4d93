# Runs the whole test suite on the AMD GPUs of the host:
#   docker build -t hipverify .
#   docker run --rm --device /dev/kfd --device /dev/dri hipverify
# docs/rocm.md has more.
ARG IMAGE=rocm/dev-ubuntu-24.04:6.4.3
FROM ${IMAGE}

ARG RUST=1.95.0
ENV PATH=/root/.cargo/bin:/opt/rocm/bin:${PATH}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates curl gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain ${RUST}

WORKDIR /hipverify
COPY . .
# A kernel that does not compile fails the build, and a GPU that does not open fails the tests.
ENV HIPVERIFY_HIPCC=require HIPVERIFY_REQUIRE=amd
RUN cargo test --workspace --release --no-run
CMD ["cargo", "test", "--workspace", "--release"]
