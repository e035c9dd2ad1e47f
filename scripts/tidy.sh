#!/usr/bin/env bash
# Runs `go mod tidy` in every module of the workspace, as if each required the workspace's other
# modules that it imports. A copy of go.mod requires them in their folders; the command alone
# could tidy only modules whose requirements are all released.
# Usage: scripts/tidy.sh [--check]; --check changes nothing and fails if a module is not tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
check=${1:-}
status=0
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
none=v0.0.0-00010101000000-000000000000

require=() drop=()
while read -r path dir; do
  require+=("-require=$path@$none" "-replace=$path=$dir")
  drop+=("-droprequire=$path" "-dropreplace=$path")
done < <(go list -m -f '{{.Path}} {{.Dir}}')

for dir in $(scripts/modules.sh); do
  cp "$dir/go.mod" "$work/go.mod"
  cp "$dir/go.sum" "$work/go.sum" 2>/dev/null || : >"$work/go.sum"
  own=$(go list -m -f '{{if eq .Dir "'"$dir"'"}}{{.Path}}{{end}}' | grep .)
  go mod edit "${require[@]}" "-droprequire=$own" "-dropreplace=$own" "$work/go.mod"
  (cd "$dir" && GOWORK=off go mod tidy -modfile="$work/go.mod")
  go mod edit "${drop[@]}" "$work/go.mod"
  cmp -s "$work/go.mod" "$dir/go.mod" && cmp -s "$work/go.sum" "$dir/go.sum" && continue
  echo "not tidy: ${dir#"$root"/}"
  if [ "$check" = --check ]; then
    status=1
  else
    cp "$work/go.mod" "$work/go.sum" "$dir/"
  fi
done
[ "$status" = 0 ] || echo "run scripts/tidy.sh"
exit "$status"
