"""A first settings file, and the account that it needs on the server.
Not here: reading settings (`settings.py`), asking for them (`cli/init.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.config.groups import NAME
from strata_cdc.config.settings import STORE_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterable


class NewSettings(Struct, frozen=True):
    """What somebody wants who begins: one source."""

    source: str
    tables: tuple[str, ...]
    lake: str
    store: str | None
    """SQLAlchemy URL; None: a database on the source's server."""
    with_mirrors: bool

    @property
    def connection(self) -> str:
        """Id of the connection, which may be part of the name of a variable."""
        return f"mysql_{self.source.lower().replace('-', '_')}"

    def to_toml(self) -> str:
        """The file's text."""
        lines = [f"lake = {_text(self.lake)}"]
        if self.store is not None:
            lines.append(f"store = {_text(self.store)}")
        lines += [
            "",
            # A name that is refused is refused as a name, not as TOML.
            f"[sources.{self.source if NAME.fullmatch(self.source) else _text(self.source)}]",
            f"connection = {_text(self.connection)}",
            f"tables = {_texts(self.tables)}",
        ]
        if self.with_mirrors:
            lines.append(f"mirrors = {_texts(self.tables)}")
        return "\n".join(lines) + "\n"

    def account(self) -> tuple[str, ...]:
        """The statements of an administrator that make the account; its password is a word to be replaced."""
        statements = [
            "CREATE USER strata IDENTIFIED BY 'PASSWORD';",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO strata;",
        ]
        if self.store is None:
            statements.append(f"GRANT ALL ON {STORE_DATABASE}.* TO strata;")
        return tuple(statements)


def _text(value: str) -> str:
    # A string of JSON is a basic string of TOML, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
