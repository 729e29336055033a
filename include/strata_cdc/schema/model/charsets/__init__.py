"""Charsets and collations of MySQL 5.7 to 9.7 and of MariaDB: ids, names, defaults by server version, widths, codecs.
Not here: which of them a column gets (`schema/apply/`), decoding of cells (`changes/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strata_cdc.flavour import Flavour

from msgspec import Struct

from strata_cdc.schema.model.charsets.collations import COLLATIONS, GONE
from strata_cdc.schema.model.charsets.exact import characters_in, exact_codec
from strata_cdc.schema.model.charsets.mariadb import RENAMED, collations_of_mariadb

__all__ = [
    "CHARSETS",
    "COLLATION_NAMES",
    "MANY_TO_ONE",
    "NOT_OF_ASCII",
    "Charset",
    "charset_named",
    "charset_of_collation",
    "collation_name",
    "collation_named",
    "decode_statement",
    "decode_text",
    "default_collation",
    "is_contextual",
]

MULTIBYTE = {
    "big5": 2, "ujis": 3, "sjis": 2, "euckr": 2, "gb2312": 2, "gbk": 2, "utf8mb3": 3, "ucs2": 2, "utf16": 4,
    "utf16le": 4, "utf32": 4, "cp932": 2, "eucjpms": 3, "gb18030": 4, "utf8mb4": 4, "filename": 5,
}  # fmt: skip
"""Longest character in bytes (`information_schema.CHARACTER_SETS.MAXLEN`); 1 for all others."""

MANY_TO_ONE = frozenset({"armscii8", "big5", "cp932", "eucjpms", "sjis", "tis620", "ujis"})
"""Charsets in which several byte sequences are the same Unicode character. All of their collations distinguish these
sequences (9.7.4; `tests/changes/test_charsets.py` checks it)."""

NOT_OF_ASCII = frozenset({"ucs2", "utf16", "utf16le", "utf32", "swe7"})
"""Charsets in which some ASCII characters have other bytes: of a table, or of a connection (a statement may be in
another than its connection)."""

CODECS = {
    "big5": "big5", "cp850": "cp850", "hp8": "hp_roman8", "koi8r": "koi8_r", "latin1": "cp1252",
    "latin2": "iso8859_2", "ascii": "ascii", "ujis": "euc_jp", "sjis": "shift_jisx0213", "hebrew": "iso8859_8",
    "tis620": "tis_620", "euckr": "cp949", "koi8u": "koi8_u", "gb2312": "gb2312", "greek": "iso8859_7",
    "cp1250": "cp1250", "gbk": "gbk", "latin5": "iso8859_9", "utf8mb3": "utf_8", "ucs2": "utf_16_be",
    "cp866": "cp866", "macce": "mac_latin2", "macroman": "mac_roman", "cp852": "cp852", "latin7": "iso8859_13",
    "utf8mb4": "utf_8", "cp1251": "cp1251", "utf16": "utf_16_be", "utf16le": "utf_16_le", "cp1256": "cp1256",
    "cp1257": "cp1257", "utf32": "utf_32_be", "cp932": "cp932", "eucjpms": "euc_jp", "gb18030": "gb18030",
}  # fmt: skip
"""Python's own codec for a charset, if there is one; MySQL's `latin1` is cp1252 with C1 controls for the bytes that are
undefined there (strings/ctype-latin1.cc)."""


class Charset(Struct, frozen=True):
    """A character set as every server version knows it."""

    name: str
    default_collation: str
    """The server's built-in default; that of utf8mb4 depends on the version: see `default_collation`."""
    binary_collation: str
    max_bytes: int
    """Bytes of the longest character."""
    codec: str | None
    """The codec with its characters; None for bytes that are no text."""


def _pairs(text: str) -> dict[int, str]:
    return {int(number): name for number, name in (entry.split() for entry in text.replace("\n", " ").split(","))}


_OF_MYSQL = {**_pairs(COLLATIONS), **_pairs(GONE)}
COLLATION_NAMES: dict[int, str] = {**_OF_MYSQL, **collations_of_mariadb(_OF_MYSQL)}
"""Names by id. Servers before 8.0.30 write `utf8` for `utf8mb3` in them; here it is always `utf8mb3`. Five ids have
other names in MariaDB, of the same charset: see `collation_name`."""

_NAMES = frozenset({*COLLATION_NAMES.values(), *RENAMED.values()})
_CONTEXTUAL = frozenset(
    name.partition("_")[2] for name in COLLATION_NAMES.values() if name.partition("_")[2].startswith("uca1400_")
)
# The default collation of a charset is the one with its lowest id, except for a few charsets.
_DEFAULTS = {
    "latin1": "latin1_swedish_ci",
    "latin2": "latin2_general_ci",
    "cp1250": "cp1250_general_ci",
    "cp1251": "cp1251_general_ci",
    "cp1257": "cp1257_general_ci",
    "latin7": "latin7_general_ci",
    "macce": "macce_general_ci",
    "utf8mb4": "utf8mb4_0900_ai_ci",
}


def charset_of_collation(collation: str) -> str:
    """The charset that a collation belongs to: the part of its name before the first underscore."""
    return collation.partition("_")[0]


def _charsets() -> dict[str, Charset]:
    charsets: dict[str, Charset] = {}
    for _, collation in sorted(COLLATION_NAMES.items()):
        name = charset_of_collation(collation)
        if name in charsets:
            continue
        charsets[name] = Charset(
            name=name,
            default_collation=_DEFAULTS.get(name, collation),
            binary_collation=f"{name}_bin" if f"{name}_bin" in _NAMES else name,
            max_bytes=MULTIBYTE.get(name, 1),
            codec=exact_codec(name, CODECS.get(name)),
        )
    return charsets


CHARSETS: dict[str, Charset] = _charsets()
"""By name, in lower case."""


def charset_named(name: str) -> Charset | None:
    """The charset that a statement names; `utf8` is utf8mb3; case does not matter."""
    folded = name.lower()
    return CHARSETS.get("utf8mb3" if folded == "utf8" else folded)


def collation_named(name: str) -> str | None:
    """The canonical name of a collation that a statement names; `utf8_bin` is `utf8mb3_bin`."""
    folded = name.lower()
    if folded.startswith("utf8_"):
        folded = "utf8mb3_" + folded[5:]
    return folded if folded in _NAMES else None


def is_contextual(collation: str) -> bool:
    """Whether it is a name without a charset, which MariaDB completes with that of the text: `uca1400_ai_ci`."""
    return collation.lower() in _CONTEXTUAL


def collation_name(number: int | None, flavour: Flavour) -> str | None:
    """The name of a collation's id on a server; None if there is none."""
    if number in RENAMED and flavour.is_mariadb():
        return RENAMED[number]
    return COLLATION_NAMES.get(number or 0)


def decode_text(raw: bytes, charset: str) -> str:
    """The text of bytes in `charset`; U+FFFD for bytes that have no meaning in it."""
    return raw.decode(CHARSETS[charset].codec or "ascii", errors="replace")


def decode_statement(raw: bytes, charset: str) -> str:
    """The text of a statement that a client sent in `charset`; U+FFFD also for a backslash of two bytes (sjis, ujis),
    which does not escape what follows it, and which text does not distinguish from another backslash."""
    if charset not in _WITH_TWO_BACKSLASHES:
        return decode_text(raw, charset)
    parts = ((data, decode_text(data, charset)) for data in characters_in(raw, charset))
    return "".join("\ufffd" if len(data) > 1 and text == "\\" else text for data, text in parts)


_WITH_TWO_BACKSLASHES = frozenset({"sjis", "ujis"})


def default_collation(charset: str, flavour: Flavour, utf8mb4_collation: str | None = None) -> str:
    """The collation of text in `charset` if the statement names no collation.

    Args:
        charset: Canonical name.
        flavour: Of the server that runs the statement.
        utf8mb4_collation: `default_collation_for_utf8mb4` of the session, if it is known.
    """
    if charset != "utf8mb4":
        return CHARSETS[charset].default_collation
    if utf8mb4_collation is not None:
        return utf8mb4_collation
    # 8.0.1 made utf8mb4_0900_ai_ci the default; MariaDB has its other defaults in `character_set_collations`.
    return "utf8mb4_0900_ai_ci" if flavour.is_mysql(8, 0, 1) else "utf8mb4_general_ci"
