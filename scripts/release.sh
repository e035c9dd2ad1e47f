#!/usr/bin/env bash
# Builds what a release of the command consists of, from the last commit, the same bytes
# on every machine that has the same release of Go.
# Usage: scripts/release.sh check [--quick]  builds twice, apart, and compares; --quick: this platform alone
#        scripts/release.sh build DIR        builds into DIR, which is what to publish
#        scripts/release.sh lambda DIR       builds the function of AWS Lambda alone into DIR
#        scripts/release.sh binary DIR       builds one binary of the files as they are, with its
#                                            licences, for GOOS and GOARCH, stamped with
#                                            VERSION, COMMIT and SOURCE_DATE_EPOCH
#        scripts/release.sh image NAME [FLAGS OF DOCKER BUILDX BUILD]
#                                            builds the image from GO_IMAGE on BASE_IMAGE
set -euo pipefail
shopt -s inherit_errexit # what fails inside $(…) fails
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
  [ -z "$(git status --porcelain)" ] || echo "release: what is not committed is not part of it"
}

# Makes a workspace in folder $1 of the root module and modules $2…, which ship together: what benchmarks,
# documentation and the other program require must not choose the versions that users get.
workspace() {
  mkdir -p "$1"
  {
    printf 'go %s\n\nuse (\n\t"%s"\n' "$(sed -n 's/^go //p' go.mod)" "$PWD"
    printf "\t\"$PWD/%s\"\n" "${@:2}"
    echo ')'
  } >"$1/go.work"
  cp go.work.sum "$1/go.work.sum"
  export GOWORK=$1/go.work
}

# Builds the command, or the function where GOOS is lambda, into folder $1, with the licences of
# everything in it and a bill of materials. Prints the program's path.
compile() {
  local stamp="-X $module/cmd/dynalimit/internal/version" program package
  if [ "$GOOS" = lambda ]; then
    workspace "$1" lambda aggregator/s3archive
    export GOOS=linux
    program=$1/bootstrap package=$module/lambda/cmd/aggregator stamp="-X main.version=$VERSION" # the name that the runtime looks for
  else
    workspace "$1" cmd/dynalimit keeper
    program=$1/dynalimit package=$module/cmd/dynalimit
    stamp="$stamp.version=$VERSION $stamp.commit=$COMMIT $stamp.date=$(TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T' "$SOURCE_DATE_EPOCH")"
    [ "$GOOS" != windows ] || program=$program.exe
  fi
  go build -trimpath -buildvcs=false -o "$program" -ldflags "-s -w -buildid= $stamp" "$package"
  licences "$package" >"$1/THIRD_PARTY_LICENSES.txt"
  bill "$program" >"$1/bill.cdx.json"
  echo "$program"
}

# Prints the folders of what package $1 is made of besides this repository, with their names: modules and Go itself.
works() {
  go list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' "$1" | grep -v "^$module" | LC_ALL=C sort -u
  echo "Go $(go env GOVERSION) $(go env GOROOT)"
}

# Prints the licences and notices of the works in package $1. A licence that is none of those that
# are known here fails: read it first.
licences() {
  local name version dir found
  echo "This program contains the following works, under the licences below their names."
  works "$1" | while read -r name version dir; do
    mapfile -t found < <(find "$dir" -maxdepth 1 -type f \( -iname 'LICEN[SC]E*' -o -iname 'COPYING*' -o -iname 'NOTICE*' \) | LC_ALL=C sort)
    if [ "${#found[@]}" = 0 ] || ! cat -- "${found[@]}" | tr -s '[:space:]' ' ' | grep -E 'Permission is hereby granted, free of charge|Redistribution and use in source and binary forms|Apache License|Mozilla Public License|Permission to use, copy, modify' >/dev/null; then
      echo "release: $name $version has no licence that is known: read it, and add it to scripts/release.sh" >&2
      return 1
    fi
    printf '\n%s\n%s %s\n\n' "$(printf '=%.0s' {1..80})" "$name" "$version"
    cat -- "${found[@]}"
  done
}

# Prints the bill of materials of program $1, as it says itself what was linked, in CycloneDX.
bill() {
  go version -m "$1" | awk -v version="$VERSION" -v module="$module" -v now="$(TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T' "$SOURCE_DATE_EPOCH")" '
    $1 == "=>" { print "release: a module is replaced: a release has no replacements" >"/dev/stderr"; failed = 1; exit 1 }
    $1 == "mod" || $1 == "dep" {
      v = index($2, module) == 1 ? version : $3
      if ($1 == "dep" && v == $3 && $4 == "") { print "release: " $2 " has no checksum" >"/dev/stderr"; failed = 1; exit 1 }
      gsub(/\+/, "%2B", v)
      c = "{\"type\":\"" ($1 == "mod" ? "application" : "library") "\",\"name\":\"" $2 "\",\"version\":\"" v "\",\"purl\":\"pkg:golang/" $2 "@" v "\"}"
      if ($1 == "mod") main = c; else list = list (list == "" ? "" : ",\n") c
    }
    END {
      if (failed) exit 1
      print "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.6\",\"version\":1,\n\"metadata\":{\"timestamp\":\"" now "\",\"component\":" main "},\n\"components\":[\n" list "\n]}"
    }'
}

# Builds the release of the exported tree $1 into folder $2, for the platforms after them.
build_tree() {
  local tree=$1 out=$2 platform name archive program
  shift 2
  mkdir -p "$out"
  (
    cd "$tree"
    for platform in "$@"; do
      name=dynalimit_${VERSION}_${platform/\//_} archive=$out/dynalimit_${VERSION}_${platform/\//_}.tar.gz
      program=$(GOOS=${platform%/*} GOARCH=${platform#*/} compile "$tree.bin/$name")
      case $platform in windows/* | lambda/*) archive=$out/$name.zip ;; esac
      mv "$tree.bin/$name/bill.cdx.json" "$out/$name.cdx.json"
      [ "$platform" != "$function" ] || name=. # Lambda looks for the program at the root
      GOWORK=off go run ./internal/release "$archive" "$SOURCE_DATE_EPOCH" "$name" "$program" LICENSE README.md "${program%/*}/THIRD_PARTY_LICENSES.txt"
    done
    cd "$out"
    LC_ALL=C sha256sum -- * >"dynalimit_${VERSION}_checksums.txt"
  )
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

# Builds platforms $2 of the last commit into folder $1.
build_release() {
  local out
  mkdir -p "$1"
  out=$(cd "$1" && pwd)
  settle_environment
  read_commit
  make_work
  export_commit "$work/tree"
  # shellcheck disable=SC2086 # the list is of words
  build_tree "$work/tree" "$work/out" $2
  cp "$work/out"/* "$out/"
  wc -c "$out"/*
}

# Builds twice: in folders of other names and depths, and under another umask, time zone,
# language and home. The second time nothing that was compiled before is used, unless it
# is to be quick: then the go command takes from its cache what it holds for equal.
check_release() {
  local platforms=$all_platforms began=$SECONDS native said name
  settle_environment
  read_commit
  native=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
  [ "${1:-}" != --quick ] || platforms=$native
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
  diff -r "$work/first" "$work/second" || { echo "release: the two builds differ" >&2 && return 1; }
  name=dynalimit_${VERSION}_${native/\//_}
  (cd "$work/first" && sha256sum --check --quiet "dynalimit_${VERSION}_checksums.txt" && tar -xzf "$name.tar.gz" -C "$work")
  said=$("$work/$name/dynalimit" --version)
  echo "release: $said"
  if [[ $said != *" $VERSION (commit ${COMMIT:0:12} "* ]]; then
    echo "release: the binary for $native does not say that it is $VERSION" >&2
    return 1
  fi
  (cd "$work/first" && wc -c -- *)
  echo "release: two builds are equal byte for byte, in $((SECONDS - began)) s; 'scripts/release.sh build DIR' keeps one"
}

one_binary() {
  : "${VERSION:?say which release this is}" "${COMMIT:?say what it is built from}" "${SOURCE_DATE_EPOCH:?say when that was}"
  settle_environment
  make_work
  mkdir -p "$1"
  export GOOS=${GOOS:-$(go env GOOS)} GOARCH=${GOARCH:-$(go env GOARCH)}
  cp "$(compile "$work/bin")" "$work/bin/THIRD_PARTY_LICENSES.txt" LICENSE "$1/"
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
  git -c core.autocrlf=false archive HEAD | docker buildx build --provenance=false --tag "$name" \
    --build-arg GO_IMAGE --build-arg BASE_IMAGE --build-arg VERSION --build-arg COMMIT \
    --build-arg SOURCE_DATE_EPOCH --build-arg "CREATED=$(TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T' "$SOURCE_DATE_EPOCH")" \
    "$@" -
}

case ${1:-} in
check) check_release "${2:-}" ;;
build) build_release "${2:?name a folder for the release}" "$all_platforms" ;;
lambda) build_release "${2:?name a folder for the function}" "$function" ;;
binary) one_binary "${2:?name the folder of the binary}" ;;
image) build_image "${2:?name the image}" "${@:3}" ;;
*)
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac
