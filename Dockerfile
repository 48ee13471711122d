# docker build -t geminga .
# docker run -p 6650:6650 -p 8080:8080 -e advertisedAddress=localhost -v geminga:/data geminga

FROM rust:1.95.0-slim-bookworm AS build
# The image's own compiler is the one that rust-toolchain.toml names; without this rustup would fetch parts that a build does not need.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package geminga-geminga --bin geminga \
 && cp target/release/geminga /geminga

FROM debian:bookworm-slim
RUN groupadd --system --gid 10000 geminga \
 && useradd --system --uid 10000 --gid geminga --home-dir /data --no-create-home geminga \
 && install --directory --owner geminga --group geminga /data /pulsar /pulsar/bin /pulsar/conf
COPY --from=build /geminga /usr/local/bin/geminga
COPY LICENSE /usr/share/doc/geminga/LICENSE
COPY conf/standalone.conf conf/broker.conf conf/REFERENCE.md /usr/share/doc/geminga/
# Where tools that start Pulsar's image look: the broker itself, and the script that would write variables into a file,
# which has nothing to do because the broker reads variables itself.
RUN ln -s /usr/local/bin/geminga /pulsar/bin/pulsar \
 && printf '#!/bin/sh\nexit 0\n' > /pulsar/bin/apply-config-from-env.py \
 && chmod 755 /pulsar/bin/apply-config-from-env.py \
 && touch /pulsar/conf/standalone.conf

# Inside a container only the published ports can be reached, so all addresses are bound. Bare names are the weakest
# variables: -e bindAddress, PULSAR_PREFIX_ and GEMINGA_ all win over them. The number of event loops follows from the
# container's processors and their quota, and the memory budget from its limit: both are left unset.
ENV bindAddress=0.0.0.0 \
    dataDirectory=/data
USER geminga
WORKDIR /pulsar
VOLUME /data
EXPOSE 6650 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["geminga"]
