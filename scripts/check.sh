#!/usr/bin/env bash
# Everything that is judged without running the product: all judges speak before it fails.
#
# usage: check.sh FOLDER...
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH" PYTHONPATH=include:.
folders=()
for folder in "$@"; do [ -d "$folder" ] && folders+=("$folder"); done
failed=()
judge() {
    local name=$1
    shift
    local said
    if said=$("$@" 2>&1); then printf 'check: %-12s ok\n' "$name"; else
        printf 'check: %-12s FAILED\n%s\n' "$name" "$said"
        failed+=("$name")
    fi
}
judge format ruff format --check "${folders[@]}"
judge lint ruff check "${folders[@]}"
judge types mypy
judge rooms lint-imports --no-cache
judge dead-code vulture
judge dependencies deptry include dags plugins spark_jobs scripts demo
judge spelling codespell include dags spark_jobs plugins scripts tests docs README.md CONTRIBUTING.md Makefile
[ ${#failed[@]} -eq 0 ] || { printf 'check: failed: %s\n' "${failed[*]}" >&2; exit 1; }
