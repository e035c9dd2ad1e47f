#!/usr/bin/env bash
# Checks CloudFormation templates with a pinned cfn-lint, which it installs once per
# machine, with pip, beside the other tools.
# Usage: scripts/cfn-lint.sh TEMPLATE…
# Where it cannot be installed nothing is checked, which is said; with CI=true that fails.
set -euo pipefail

version=1.51.0
dir=${XDG_CACHE_HOME:-$HOME/.cache}/dynalimit/cfn-lint-$version

not_checked() {
  echo "=== TEMPLATES WERE NOT CHECKED: $1"
  [ "${CI:-}" != true ]
  exit
}

# The scripts of a virtual environment name its place, so it is made where it stays, and
# marked when it is whole.
if [ ! -e "$dir/installed" ]; then
  command -v python3 >/dev/null || not_checked "python3, which installs cfn-lint, is missing"
  echo "cfn-lint: installing $version into $dir (once per machine)" >&2
  rm -rf "$dir"
  if ! { python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "cfn-lint==$version"; } >&2; then
    not_checked "cfn-lint $version could not be installed"
  fi
  touch "$dir/installed"
fi
# W1030: where nothing is made, the parameters of it are empty.
"$dir/bin/cfn-lint" --include-checks W --ignore-checks W1030 -- "$@"
