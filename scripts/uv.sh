#!/usr/bin/env bash
# uv of the environment, with the index and the certificates that pip is set to: usage as of uv.
#
# pip's index becomes uv's where uv has none of its own; uv reads SSL_CERT_FILE, pip also PIP_CERT.
set -euo pipefail
bin=$(dirname "${BASH_SOURCE[0]}")/../.venv/bin
index=$("$bin/pip" config list | sed -nE "s/^(global|site|user|:env:)\.index-url='(.*)'$/\2/p" | tail -n 1)
certificate=$("$bin/pip" config list | sed -nE "s/^(global|site|user|:env:)\.cert='(.*)'$/\2/p" | tail -n 1)
if [ -n "$index" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-$index}}"; fi
if [ -n "$certificate" ]; then export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificate}"; fi
exec "$bin/uv" "$@"
