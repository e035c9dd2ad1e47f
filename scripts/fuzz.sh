#!/usr/bin/env bash
# Fuzzes every target of every module, one after the other.
# Usage: FUZZTIME=30s scripts/fuzz.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-30s}
found=0
while IFS=: read -r file name; do
  found=$((found + 1))
  echo "=== $name in $(dirname "$file") for $fuzztime"
  (cd "$(dirname "$file")" && go test -run='^$' -fuzz="^$name\$" -fuzztime="$fuzztime" .)
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)

echo "=== $found fuzz targets passed"
[ "$found" -gt 0 ]
