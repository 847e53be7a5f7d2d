# syntax=docker/dockerfile:1
# The experiment server in a container. It needs a Postgres of its own: see docker-compose.yml.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -o /out/trinity ./cmd/trinity

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin trinity \
    && install -d -o trinity -g trinity -m 0700 /data
COPY --from=build /out/trinity /usr/local/bin/trinity
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
ENV TRINITY_DATA=/data
# No curl in the image: bash speaks enough HTTP.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["trinity"]
# Inside a container loopback is not reachable from outside it, so the server listens on all of the container's addresses.
# There are no accounts yet: publish the port on the host's loopback only, as docker-compose.yml does.
CMD ["serve", "--addr", "0.0.0.0:8080", "--allow-remote"]
