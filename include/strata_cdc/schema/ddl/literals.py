"""Literals as a statement writes them.
Not here: reading them from tokens (`schema/ddl/cursor.py`), the value that a column stores
(`schema/apply/defaults.py`)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class LiteralKind(StrEnum):
    """The form of a literal."""

    TEXT = "text"
    NUMBER = "number"
    HEX = "hex"
    BITS = "bits"


class Literal(Struct, frozen=True):
    """A literal; `text` is without quotes, prefix and escapes; a number has its sign."""

    kind: LiteralKind
    text: str
    charset: str | None = None
    """Of the introducer, as written; None for that of the connection."""

    def raw_bytes(self) -> bytes:
        """The bytes of a hexadecimal or bit literal."""
        if self.kind is LiteralKind.HEX:
            return bytes.fromhex(self.text if len(self.text) % 2 == 0 else "0" + self.text)
        width = (len(self.text) + 7) // 8
        return int(self.text or "0", 2).to_bytes(width, "big")

    def number(self) -> int:
        """The value of a hexadecimal or bit literal as a number."""
        return int(self.text or "0", 16 if self.kind is LiteralKind.HEX else 2)
