#!/usr/bin/env bash
# Runs every check, then fails if one of them did. The tools are pinned in tools.sh.
# VULNDB=required makes an unreachable vulnerability database a failure, as in CI;
# GOVULNDB names a mirror of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Each check is a process of its own: in a condition, a function would run without errexit.
failed=()
check() {
  echo "--- $1"
  if ! scripts/lint.sh --one "$1"; then
    failed+=("$1")
  fi
}

format() {
  local gofumpt unformatted
  gofumpt=$(scripts/tools.sh gofumpt)
  unformatted=$("$gofumpt" -l .)
  [ -n "$unformatted" ] || return 0
  printf '%s\n' "$unformatted"
  echo "format: run '$gofumpt -w' on these files"
  return 1
}

vet() {
  mapfile -t packages < <(scripts/modules.sh | sed 's|$|/...|')
  go vet "${packages[@]}"
}

linters() {
  local golangci status=0
  golangci=$(scripts/tools.sh golangci-lint)
  while read -r dir; do
    (cd "$dir" && "$golangci" run --allow-serial-runners ./...) || status=1
  done < <(scripts/modules.sh)
  return "$status"
}

shell() {
  if ! command -v shellcheck >/dev/null; then
    echo "shell: NOT CHECKED, as shellcheck is not installed"
    return 0
  fi
  shellcheck .ci/run scripts/*.sh
}

tidy() {
  scripts/tidy.sh --check
}

templates() {
  scripts/cfn-lint.sh cmd/dynalimit/internal/infra/dynalimit.yaml
}

# The alerts of Prometheus, by its own evaluation.
alerts() {
  if ! command -v promtool >/dev/null; then
    echo "alerts: NOT CHECKED, as promtool is not installed"
    return 0
  fi
  promtool check rules otel/prometheus/alerts.yaml
  promtool test rules otel/prometheus/alerts_test.yaml
}

# How much of the limiter runs for one call.
prose() {
  go run ./internal/house/prose
}

measures() {
  go run ./internal/house/measures
}

# Says loudly why nothing was scanned, which fails only where a scan is required.
not_scanned() {
  echo "=== VULNERABILITIES WERE NOT CHECKED: $1"
  [ "${VULNDB:-}" != required ]
}

vulnerabilities() {
  local govulncheck out status dir
  if ! govulncheck=$(scripts/tools.sh govulncheck); then
    not_scanned "govulncheck could not be built"
    return
  fi
  while read -r dir; do
    status=0
    out=$(cd "$dir" && "$govulncheck" -db "${GOVULNDB:-https://vuln.go.dev}" ./... 2>&1) || status=$?
    printf '%s\n' "$out"
    # 3: findings. Any other failure is one of the tool or the code, except this one.
    if [ "$status" -ne 0 ] && [ "$status" -ne 3 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
      not_scanned "the vulnerability database cannot be reached"
      return
    fi
    [ "$status" -eq 0 ] || return "$status"
  done < <(scripts/modules.sh)
}

if [ "${1:-}" = --one ]; then
  "$2"
  exit
fi

for name in format vet linters shell tidy templates alerts measures prose vulnerabilities; do
  check "$name"
done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
fi
echo "lint: nothing found"
