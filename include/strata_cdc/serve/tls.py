"""How the web server speaks TLS, and whose certificates it wants.
Not here: connections to MySQL (`binlog/protocol/connection.py`), tokens (`token_guard.py`)."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from pathlib import Path


def tls_options(certificate: Path | None, key: Path | None, client_ca: Path | None) -> dict[str, Any]:
    """The options of uvicorn; none without a certificate.

    Args:
        certificate: The server's (PEM), with those between it and its authority.
        key: Its key (PEM), without a password.
        client_ca: Who signs clients' certificates (PEM): a connection without such a one is not made.

    Raises:
        Usage: One is missing that another one needs, cannot be read, or does not fit.
    """
    if certificate is None and key is None and client_ca is None:
        return {}
    if certificate is None or key is None:
        raise Usage(
            "TLS needs a certificate and its key",
            remedy="Give --tls-cert and --tls-key; without them a client's certificate cannot be requested.",
        )
    _try(certificate, key, client_ca)
    options: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if client_ca is not None:
        options |= {"ssl_ca_certs": str(client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def _try(certificate: Path, key: Path, client_ca: Path | None) -> None:
    """Loads them once, so that a mistake is reported before anything listens."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # An empty password: a key that wants one would ask the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_ca is not None:
            context.load_verify_locations(client_ca)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (certificate, key, client_ca) if path is not None)
        raise Usage(
            f"TLS cannot be set up with {files}: {error}",
            remedy="They have to be PEM files that this user can read, and the key without a password and the "
            "certificate's own.",
        ) from None
