#!/usr/bin/env bash
# Tries the dangerous changes of internal/mutants/lists, and what gremlins changes in
# the pure packages. Either may find a hole in the tests: both run, then it fails.
# Usage: scripts/mutants.sh [-run PATTERN] [-parallel N]   with flags, the lists alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
go run ./internal/mutants "$@" || failed=1
if [ $# -eq 0 ]; then
  go run ./internal/mutants -gremlins "$(scripts/tools.sh gremlins)" || failed=1
fi
exit "$failed"
