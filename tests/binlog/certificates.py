"""Certificates of tests: an authority of their own, and what it signs.
Not here: servers that show them (`test_protected_connections.py`)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_authority(folder: Path, name: str) -> Path:
    """A key and a certificate that signs others; returns the certificate."""
    folder.mkdir(parents=True, exist_ok=True)
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", folder / f"{name}-key.pem", "-out", folder / f"{name}.pem",
    )  # fmt: skip
    return folder / f"{name}.pem"


def make_certificate(authority: Path, name: str, *alternatives: str) -> tuple[Path, Path]:
    """A certificate for names such as `IP:127.0.0.1`, and its key."""
    folder = authority.parent
    key, request, signed = folder / f"{name}-key.pem", folder / f"{name}.csr", folder / f"{name}.pem"
    extensions = folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={','.join(alternatives)}\n")
    _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    _openssl(
        "x509", "-req", "-in", request, "-days", "2", "-CA", authority, "-CAkey", folder / f"{authority.stem}-key.pem",
        "-CAcreateserial", "-extfile", extensions, "-out", signed,
    )  # fmt: skip
    return signed, key


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
