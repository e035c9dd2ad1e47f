#!/usr/bin/env bash
# Prints the folder of every module of the workspace, one per line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go list -m -f '{{.Dir}}'
