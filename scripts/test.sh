#!/usr/bin/env bash
# Vets and tests every module of the workspace but that of `make test-sdks`, and says which engines were used.
# Usage: scripts/test.sh [go test flags]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

endpoint=${DYNALIMIT_TEST_ENDPOINT:-}
mapfile -t packages < <(scripts/modules.sh | grep -v '/llm/llmhttp/sdks$' | sed 's|$|/...|')

# Comes last, after failures too: a run without the engine must not pass for one with it.
notice() {
  echo
  if [ -n "$endpoint" ]; then
    echo "=== Engines: ddbmem in process AND the third-party engine at $endpoint"
  else
    echo "=== Engines: ddbmem in process ONLY. NO THIRD-PARTY ENGINE WAS USED."
    echo "=== Run 'make test-engine' to test against one as well."
  fi
}
trap notice EXIT

export DYNALIMIT_HISTORIES=${DYNALIMIT_HISTORIES:-60}
# Tests make much garbage and hold little: most of the collector's work is spared. Many of
# them wait: packages take turns, two for each core. Their code is vetted below, once.
export GOGC=${GOGC:-1000} GOMEMLIMIT=${GOMEMLIMIT:-1GiB}
flags=(-timeout=20m -vet=off "-p=$((2 * $(getconf _NPROCESSORS_ONLN)))")
# The test cache cannot see what an engine would answer this time. The root module, the REST
# API and the function ask one: `make test` runs the others.
if [ -n "$endpoint" ]; then
  flags+=(-count=1)
  packages=("$PWD/..." "$PWD/keeper/..." "$PWD/lambda/...")
fi

go vet "${packages[@]}"
# The race detector takes ten times as long: it is spared what has one goroutine, and what
# measures memory.
if [[ " $* " == *" -race "* ]]; then
  mapfile -t packages < <(go list "${packages[@]}" | grep -vE '/(bench|site|internal/plan|cmd/dynalimit/internal/(infra|report))$')
  # Long tests that start nothing which shorter ones do not, and commands that are run one by one.
  flags+=(-timeout=40m '-skip=^(TestProcessesShareByTheirWaiters|TestIdleTable|TestUsageCost|TestLawsBreakWithoutTheHorizon|TestShardsThatSplit|TestMemoryOfHostileBodiesIsBounded|TestTenThousand.*|TestOperationsPage|TestHelp|TestNoCommandIsSilent|TestProblemsOfTheFileAsAWhole|.*NarrowTerminals?|TestHostileWords|TestCompletion.*|.*Transcript)$')
fi
# First what takes longest in one go, so that others run beside it.
if [ -z "$endpoint" ]; then
  packages=("$PWD" "$PWD/cmd/dynalimit" "${packages[@]}")
fi
go test "${flags[@]}" "$@" "${packages[@]}"
