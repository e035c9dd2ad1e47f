#!/usr/bin/env bash
# Calls a gateway with llmhttp by the providers' SDKs for Python and Node, and compares each
# settlement with what a scripted provider billed. Packages are in the cache folder. What cannot be
# installed is skipped, and said so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

from=scripts/clients
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dynalimit/clients-$(cat $from/requirements.txt $from/package-lock.json | sha256sum | cut -c1-12)
mkdir -p "$cache"

skip() {
  echo "clients: SKIPPED $1: $2" >&2
}

# Installs once: a file says that it is whole.
install_python() {
  command -v python3 >/dev/null || { skip Python "python3 is not installed"; return 1; }
  [ ! -e "$cache/python.done" ] || return 0
  if ! { python3 -m venv --clear "$cache/python" && "$cache/python/bin/pip" install --quiet --no-deps --requirement $from/requirements.txt; }; then
    skip Python "the packages of $from/requirements.txt cannot be installed"
    return 1
  fi
  touch "$cache/python.done"
}

install_node() {
  command -v npm >/dev/null || { skip Node "npm is not installed"; return 1; }
  [ ! -e "$cache/node.done" ] || return 0
  mkdir -p "$cache/node"
  cp $from/package.json $from/package-lock.json "$cache/node"
  if ! (cd "$cache/node" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
    skip Node "the packages of $from/package-lock.json cannot be installed"
    return 1
  fi
  touch "$cache/node.done"
}

go build -o "$cache/gateway" ./$from
coproc gateway { exec "$cache/gateway"; }
# shellcheck disable=SC2154 # coproc sets gateway_PID
trap 'kill "$gateway_PID" 2>/dev/null || true' EXIT
read -r -t 60 url <&"${gateway[0]}"

if install_python; then
  echo "clients: Python's SDKs"
  "$cache/python/bin/python" $from/clients.py "$url"
fi
if install_node; then
  echo "clients: Node's SDKs"
  cp $from/clients.mjs "$cache/node" # which has the packages
  node "$cache/node/clients.mjs" "$url"
fi
