"""Paths of the settings made absolute: a relative path is beside the settings file, wherever the process was started.
Settings that are in no file (`folder` is None) must have none.
Not here: the settings (`settings.py`), whether the paths exist (`ops/doctor/`)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from strata_cdc.errors import SettingsError

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.connection import ServerAddress

_UNUSABLE = re.compile(r"[\\\[\]{}*?]|%[0-9A-Fa-f]{2}")
_FILES_OF_TLS = ("ssl_ca", "ssl_cert", "ssl_key")


def path_beside(folder: Path | None, path_or_url: str) -> str:
    """The absolute path of a folder or file; a URL stays as it is.

    Raises:
        SettingsError: It is relative, and the settings are in no file.
    """
    if "://" in path_or_url:
        return path_or_url
    path = Path(path_or_url) if folder is None else folder / path_or_url
    if folder is None and not path.is_absolute():
        raise SettingsError(
            f"the path {path_or_url!r} is relative, and these settings are in no file",
            remedy="Write a URL, or a path that begins with /.",
        )
    return str(path.resolve())


def is_usable_lake(lake: str) -> bool:
    """Whether all libraries accept the path of a local lake unchanged; URLs are not checked.

    Spark (4.3) reads the path as a pattern of file names, and delta-rs (1.6) decodes `%20` and converts a backslash.
    """
    return "://" in lake or not _UNUSABLE.search(lake)


def store_beside(folder: Path | None, url: str) -> str:
    """The URL of a store: with absolute paths of the SQLite file, or of a server's TLS files.

    SQLAlchemy writes a relative path after three slashes, an absolute path after four.
    """
    scheme, _, rest = url.partition("://")
    path, mark, query = rest.partition("?")
    name = path.removeprefix("/")
    if scheme.partition("+")[0] == "sqlite":
        # `file:` begins a URI of SQLite.
        is_relative = path.startswith("/") and name and not name.startswith(("/", "file:", ":memory:"))
        return f"{scheme}:///{path_beside(folder, name)}{mark}{query}" if is_relative else url
    options = parse_qsl(query, keep_blank_values=True)
    if not any(name in _FILES_OF_TLS for name, _ in options):
        return url
    placed = [(name, path_beside(folder, value) if name in _FILES_OF_TLS else value) for name, value in options]
    return urlunsplit(urlsplit(url)._replace(query=urlencode(placed)))


def address_beside(folder: Path | None, address: ServerAddress) -> ServerAddress:
    """An address with absolute paths of the TLS files."""
    ca, cert, key = (
        path_beside(folder, path) if path else None for path in (address.tls_ca, address.tls_cert, address.tls_key)
    )
    return replace(address, tls_ca=ca, tls_cert=cert, tls_key=key)
