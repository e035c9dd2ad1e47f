# The command as a container image: one static binary and the licences of what is in it, on a
# base without a shell, for a user without rights. CONTRIBUTING.md ("Container image") says
# which images to name, and why none is named here:
#   scripts/release.sh image NAME
ARG GO_IMAGE
ARG BASE_IMAGE

# Go compiles for every platform, so this runs on the builder's own.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG COMMIT
ARG SOURCE_DATE_EPOCH
RUN GOOS="${TARGETOS}" GOARCH="${TARGETARCH}" scripts/release.sh binary /out

FROM ${BASE_IMAGE}
ARG VERSION
ARG COMMIT
ARG CREATED
LABEL org.opencontainers.image.title="dynalimit" \
      org.opencontainers.image.description="Limits and budgets for LLM calls, kept in DynamoDB" \
      org.opencontainers.image.source="https://github.com/dynalimit/dynalimit" \
      org.opencontainers.image.documentation="https://github.com/dynalimit/dynalimit#readme" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build --chmod=0755 /out/dynalimit /usr/bin/dynalimit
COPY --from=build --chmod=0644 /out/LICENSE /out/THIRD_PARTY_LICENSES.txt /usr/share/doc/dynalimit/
USER 65532:65532
ENTRYPOINT ["/usr/bin/dynalimit"]
