#!/usr/bin/env bash
# Everything that is judged without running the product: all judges speak before it fails.
#
# usage: check.sh FOLDER...
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH" PYTHONPATH=include:.
folders=()
for folder in "$@"; do [ -d "$folder" ] && folders+=("$folder"); done
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
names=()
# All at once: most of the time goes to one of them, the types.
judge() {
    names+=("$1")
    { "${@:2}" >"$said/$1" 2>&1 && touch "$said/$1.ok"; } &
}
judge types mypy
judge format ruff format --check "${folders[@]}"
judge lint ruff check "${folders[@]}"
# Kernels are loops over bytes: they may have 11 (pyproject.toml).
judge complexity ruff check include dags scripts demo --exclude include/strata_cdc/binlog/kernels \
    --select C901 --config lint.mccabe.max-complexity=7
judge packages lint-imports --no-cache
judge dead-code vulture
judge dependencies deptry include dags scripts demo
judge spelling codespell include dags scripts tests docs README.md CONTRIBUTING.md Makefile
wait
failed=()
for name in "${names[@]}"; do
    if [ -e "$said/$name.ok" ]; then printf 'check: %-12s ok\n' "$name"; else
        printf 'check: %-12s FAILED\n' "$name"
        cat "$said/$name"
        failed+=("$name")
    fi
done
[ ${#failed[@]} -eq 0 ] || { printf 'check: failed: %s\n' "${failed[*]}" >&2; exit 1; }
