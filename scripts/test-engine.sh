#!/usr/bin/env bash
# Runs every suite against a third-party DynamoDB engine as well: dynoxide, in
# memory, on a free loopback port, started and stopped by this script.
# Usage: scripts/test-engine.sh [go test flags]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.13.0
root=${XDG_CACHE_HOME:-$HOME/.cache}/dynalimit/dynoxide-$version
engine=$root/bin/dynoxide

install_engine() {
  [ ! -x "$engine" ] || return 0
  if ! command -v cargo >/dev/null; then
    cat >&2 <<TEXT
test-engine: the engine is not installed, and cargo, which builds it, is missing.
Install Rust from https://rustup.rs (or your system's package "cargo"), then run
'make test-engine' again. To test without it: 'make test'. To test against another
engine, start it and run: DYNALIMIT_TEST_ENDPOINT=http://127.0.0.1:PORT make test
TEXT
    return 1
  fi
  echo "test-engine: building dynoxide $version into $root (once per machine, about 2 minutes)"
  cargo install dynoxide-rs --version "$version" --locked --no-default-features \
    --features native-sqlite,http-server --root "$root"
}

log=$(mktemp)
pid=

stop_engine() {
  [ -n "$pid" ] || return 0
  kill "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  pid=
}
cleanup() {
  if [ -n "$pid" ] && ! kill -0 "$pid" 2>/dev/null; then
    echo "test-engine: the engine ended before the tests did; its last words:" >&2
    tail -n 20 "$log" >&2
  fi
  stop_engine
  rm -f "$log"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts the engine on port $1 and waits until that very process answers: a port
# somebody else holds ends our process, and the caller tries another.
start_engine() {
  "$engine" --host 127.0.0.1 --port "$1" </dev/null >"$log" 2>&1 &
  pid=$!
  for _ in {1..100}; do
    kill -0 "$pid" 2>/dev/null || break
    if "$engine" healthcheck --port "$1" --timeout 1 >/dev/null 2>&1; then
      sleep 0.1 # time for a process that lost the port to be gone
      kill -0 "$pid" 2>/dev/null && return 0
      break
    fi
    sleep 0.1
  done
  stop_engine
  return 1
}

install_engine
port=
for _ in {1..10}; do
  candidate=$((20000 + RANDOM % 12000)) # below the range the system hands out itself
  if start_engine "$candidate"; then
    port=$candidate
    break
  fi
done
if [ -z "$port" ]; then
  echo "test-engine: dynoxide did not answer on any of ten ports; its last words:" >&2
  tail -n 20 "$log" >&2
  exit 1
fi

echo "test-engine: dynoxide $version answers on http://127.0.0.1:$port (process $pid)"
DYNALIMIT_TEST_ENDPOINT=http://127.0.0.1:$port scripts/test.sh "$@"
