#!/usr/bin/env bash
# The one place that pins what the checks run.
# Usage: scripts/tools.sh NAME   prints the tool's path, after building it if
# this machine has not done so for this Go release and this version.
set -euo pipefail

case ${1:-} in
gofumpt) package=mvdan.cc/gofumpt version=v0.12.0 ;;
gremlins) package=github.com/go-gremlins/gremlins/cmd/gremlins version=v0.6.0 ;;
golangci-lint) package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint version=v2.15.0 ;;
govulncheck) package=golang.org/x/vuln/cmd/govulncheck version=v1.8.0 ;;
*)
  echo "usage: scripts/tools.sh gofumpt|golangci-lint|govulncheck|gremlins" >&2
  exit 2
  ;;
esac

# A linter built by an older Go refuses newer code, so the release is in the name.
dir=${XDG_CACHE_HOME:-$HOME/.cache}/dynalimit/tools-$(go env GOVERSION)/$1-$version

if [ ! -x "$dir/$1" ]; then
  echo "tools: building $1 $version into $dir (once per machine)" >&2
  # From outside the workspace, whose go.work has no say in a tool's versions.
  (cd / && GOWORK=off GOFLAGS=-mod=mod GOBIN="$dir" go install "$package@$version")
fi
printf '%s\n' "$dir/$1"
