#!/usr/bin/env bash
# Builds what a release of the command consists of, from the last commit, the same bytes
# on every machine that has the same release of Go.
# Usage: scripts/release.sh check           builds twice, apart, and compares
#        scripts/release.sh check --quick   the same for this platform and the function alone
#        scripts/release.sh build DIR       builds into DIR, which is what to publish
#        scripts/release.sh lambda DIR      builds the function of AWS Lambda alone into DIR
#        scripts/release.sh binary DIR      builds one binary of the files as they are, with its
#                                           licences, for GOOS and GOARCH, stamped with
#                                           VERSION, COMMIT and SOURCE_DATE_EPOCH
#        scripts/release.sh image NAME [FLAGS OF DOCKER BUILDX BUILD]
#                                           builds the image from GO_IMAGE on BASE_IMAGE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/dynalimit/dynalimit
# lambda/arm64 is the function of AWS Lambda, for its runtime provided.al2023.
function=lambda/arm64
all_platforms="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 $function"

# The settings of whoever builds would change the bytes; these alone may stay.
settle_environment() {
  local name
  for name in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOMODCACHE GOCACHE GOTOOLCHAIN; do
    export "$name=$(go env "$name")"
  done
  unset GOEXPERIMENT GOFIPS140 GODEBUG GO111MODULE
  export GOENV=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0
}

# Says which release the last commit is: a tag, or else a pseudo-version as Go writes them.
read_commit() {
  COMMIT=$(git rev-parse HEAD)
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  VERSION=$(git describe --tags --exact-match --match 'cmd/dynalimit/v*' 2>/dev/null || true)
  VERSION=${VERSION#cmd/dynalimit/}
  [ -n "$VERSION" ] || VERSION=v0.0.0-$(TZ=UTC0 printf '%(%Y%m%d%H%M%S)T' "$SOURCE_DATE_EPOCH")-${COMMIT:0:12}
  export COMMIT SOURCE_DATE_EPOCH VERSION
}

# Makes a workspace in folder $1 of the root module and modules $2…, which ship together: what benchmarks, documentation
# and the other program require must not choose the versions that users get.
release_workspace() {
  local shipped
  mkdir -p "$1"
  {
    printf 'go %s\n\nuse (\n\t"%s"\n' "$(sed -n 's/^go //p' go.mod)" "$PWD"
    for shipped in "${@:2}"; do printf '\t"%s"\n' "$PWD/$shipped"; done
    echo ')'
  } >"$1/go.work"
  cp go.work.sum "$1/go.work.sum"
  export GOWORK=$1/go.work
}

# Builds the command as $1.
compile() {
  local stamp=$module/cmd/dynalimit/internal/version date
  date=$(TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T' "$SOURCE_DATE_EPOCH")
  link "$1" cmd/dynalimit "-X $stamp.version=$VERSION -X $stamp.commit=$COMMIT -X $stamp.date=$date"
}

# Builds package $2 as $1 with the stamps $3.
link() {
  go build -trimpath -buildvcs=false -o "$1" -ldflags "-s -w -buildid= $3" "$module/$2"
}

# The name of the binary for GOOS and GOARCH.
binary_name() {
  if [ "$(go env GOOS)" = windows ]; then
    echo dynalimit.exe
  else
    echo dynalimit
  fi
}

one_binary() {
  local workspace name
  : "${VERSION:?say which release this is}" "${COMMIT:?say what it is built from}" "${SOURCE_DATE_EPOCH:?say when that was}"
  settle_environment
  workspace=$(mktemp -d)
  release_workspace "$workspace" cmd/dynalimit budget/budgethttp budget/secretsmanager
  mkdir -p "$1"
  name=$(binary_name)
  compile "$1/$name"
  (unset GOOS GOARCH && go build -trimpath -o "$workspace/release" ./internal/release)
  "$workspace/release" notices -binary "$1/$name" -out "$1"
  cp LICENSE "$1/LICENSE"
  rm -r "$workspace"
}

# Builds the image of the last commit. An image that is named by a tag alone is another
# one tomorrow.
build_image() {
  local name=$1 image
  shift
  for image in "${GO_IMAGE:?name the image that builds, with its digest}" "${BASE_IMAGE:?name the base image, with its digest}"; do
    if [[ ! $image =~ @sha256:[0-9a-f]{64}$ ]]; then
      echo "release: $image is not pinned: name it as IMAGE@sha256:DIGEST" >&2
      return 1
    fi
  done
  read_commit
  note_changes
  git -c core.autocrlf=false archive HEAD | docker buildx build --provenance=false --tag "$name" \
    --build-arg GO_IMAGE --build-arg BASE_IMAGE --build-arg VERSION --build-arg COMMIT \
    --build-arg SOURCE_DATE_EPOCH --build-arg "CREATED=$(TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T' "$SOURCE_DATE_EPOCH")" \
    "$@" -
}

# Builds the release of the exported tree $1 into folder $2, for the platforms after them.
build_tree() {
  local tree=$1 out=$2 platform name
  shift 2
  mkdir -p "$out" "$tree.bin"
  (
    cd "$tree"
    release_workspace "$tree.bin" cmd/dynalimit budget/budgethttp budget/secretsmanager
    unset GOOS GOARCH # of the machine itself
    go build -trimpath -o "$tree.bin/release" ./internal/release # from what the command compiles too
    for platform in "$@"; do
      if [ "$platform" = "$function" ]; then
        (build_function "$tree.bin" "$out")
        continue
      fi
      export GOOS=${platform%/*} GOARCH=${platform#*/}
      name=$tree.bin/${GOOS}_$GOARCH/$(binary_name)
      compile "$name"
      "$tree.bin/release" pack -binary "$name" -out "$out"
    done
    "$tree.bin/release" sum -out "$out"
  )
}

# Builds the function of AWS Lambda of this tree, with what is in folder $1, into folder $2.
build_function() {
  release_workspace "$1/function" lambda aggregator/s3archive
  GOOS=linux GOARCH=${function#*/} link "$1/function/bootstrap" lambda/cmd/aggregator "-X main.version=$VERSION" # the name that the runtime looks for
  "$1/release" pack -binary "$1/function/bootstrap" -out "$2"
}

# Builds the function of the last commit into folder $1, in place of one that is there.
build_lambda() {
  local out
  mkdir -p "$1"
  out=$(cd "$1" && pwd)
  settle_environment
  read_commit
  note_changes
  make_work
  export_commit "$work/tree"
  build_tree "$work/tree" "$work/out" "$function"
  cp "$work/out"/* "$out/"
  describe "$out"
}

# Puts the last commit's files into folder $1, as they were committed.
export_commit() {
  mkdir -p "$1"
  git -c core.autocrlf=false -c tar.umask=0022 archive HEAD | tar -x -C "$1"
}

# Makes a folder that is gone when the script ends.
make_work() {
  work=$(mktemp -d) # of the script, as the trap outlives every function
  trap 'rm -rf "$work"' EXIT
}

note_changes() {
  [ -z "$(git status --porcelain)" ] || echo "release: what is not committed is not part of it"
}

build_release() {
  local out
  mkdir -p "$1"
  out=$(cd "$1" && pwd)
  if [ -n "$(ls -A "$out")" ]; then
    echo "release: $out is not empty: name a new folder" >&2
    return 1
  fi
  settle_environment
  read_commit
  note_changes
  make_work
  export_commit "$work/tree"
  # shellcheck disable=SC2086 # the list is of words
  build_tree "$work/tree" "$out" $all_platforms
  describe "$out"
}

describe() {
  (cd "$1" && find . -type f | LC_ALL=C sort | while read -r file; do
    printf '  %10d bytes  %s\n' "$(wc -c <"$file")" "${file#./}"
  done)
}

# Builds twice: in folders of other names and depths, and under another umask, time zone,
# language and home. The second time nothing that was compiled before is used, unless it
# is to be quick: then the go command takes from its cache what it holds for equal.
check_release() {
  local platforms=$all_platforms began=$SECONDS native binary
  settle_environment
  read_commit
  note_changes
  native=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
  [ "${1:-}" != --quick ] || platforms="$native $function"
  make_work

  echo "release: $VERSION by $(go env GOVERSION), for $platforms"
  # shellcheck disable=SC2086 # the list is of words
  (export_commit "$work/one" && build_tree "$work/one" "$work/first" $platforms)
  # shellcheck disable=SC2086
  (
    umask 077
    export TZ=Asia/Kathmandu LC_ALL=C HOME="$work/home"
    [ "${1:-}" = --quick ] || export GOCACHE="$work/cache"
    export_commit "$work/another one/of another depth"
    build_tree "$work/another one/of another depth" "$work/second" $platforms
  )
  if ! diff -r "$work/first" "$work/second"; then
    echo "release: the two builds differ" >&2
    return 1
  fi
  (cd "$work/first" && "$work/one.bin/release" verify -out . -platforms "$platforms")
  binary=$work/one.bin/${native/\//_}/$(GOOS=${native%/*} binary_name)
  if ! run_native "$binary"; then
    echo "release: the binary for $native does not say that it is $VERSION" >&2
    return 1
  fi
  describe "$work/first"
  echo "release: two builds are equal byte for byte, in $((SECONDS - began)) s; 'scripts/release.sh build DIR' keeps one"
}

# Runs the binary $1, which must name what it was stamped with.
run_native() {
  local said
  said=$("$1" --version)
  echo "release: $said"
  [[ $said == *" $VERSION (commit ${COMMIT:0:12} "* ]]
}

case ${1:-} in
check) check_release "${2:-}" ;;
build) build_release "${2:?name a folder for the release}" ;;
lambda) build_lambda "${2:?name a folder for the function}" ;;
binary) one_binary "${2:?name the folder of the binary}" ;;
image) build_image "${2:?name the image}" "${@:3}" ;;
*)
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac
