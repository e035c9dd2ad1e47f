#!/usr/bin/env bash
# Runs the steps of CI one after another: those named, or all of them.
# Usage: scripts/ci.sh [--list | STEP...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=(test test-lean test-sdks clients test-engine lint site release-check test-race)

if [ "${1:-}" = --list ]; then
  printf '%s\n' "${steps[@]}"
  exit
fi

# CI=true makes the tests fail where a program that they need is missing.
export CI=true
for step in "${@:-${steps[@]}}"; do
  arguments=()
  case $step in
  release-check) arguments=(ARGS=--quick) ;;
  # The race detector slows the tests several times over, and finds its races in few
  # histories as well as in many.
  test-race) export DYNALIMIT_HISTORIES=10 ;;
  esac
  began=$SECONDS
  echo "##### make $step"
  make "$step" "${arguments[@]}"
  echo "##### make $step took $((SECONDS - began)) s"
done
echo "##### CI passed in $SECONDS s: ${*:-${steps[*]}}"
