#!/usr/bin/env bash
# Opens MySQL's client on the fleet's private server; arguments go to the client.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python -m scripts.fleet mysql "$@"
