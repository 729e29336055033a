"""The collation of a database, table or column, from what is written and what it inherits.
Not here: the names and ids (`schema/charsets`), the effect on a type (`columns.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.schema.model.charsets import (
    CHARSETS,
    Charset,
    charset_named,
    charset_of_collation,
    collation_named,
    default_collation,
    is_contextual,
)

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext

DEFAULT: Final = "default"
"""COLLATE DEFAULT: the default of the charset."""


def collation_for(charset: str | None, collation: str | None, inherited: str | None, context: DdlContext) -> str | None:
    """The resulting collation: an explicit one, else the charset's default, else the inherited one. `charset` is '' for
    the charset DEFAULT.

    Raises:
        DdlError: A name that no known server has.
    """
    if collation and collation.lower() != DEFAULT:
        return known_collation(_completed(collation, charset, inherited, context), context)
    if charset:
        return context.default_collation(known_charset(charset, context).name)
    if inherited is None or not context.flavour.is_mariadb():
        return inherited
    if collation:
        return context.default_collation(charset_of(inherited).name)
    # To MariaDB, the charset DEFAULT is the inherited charset with its built-in default, which no session changes.
    return default_collation(charset_of(inherited).name, context.flavour) if charset == "" else inherited


def _completed(collation: str, charset: str | None, inherited: str | None, context: DdlContext) -> str:
    """The name with a charset: that of the text, where MariaDB's names have none."""
    if not is_contextual(collation):
        return collation
    if charset:
        return f"{known_charset(charset, context).name}_{collation}"
    if inherited is None:
        raise DdlError(f"the charset of the text in collation {collation} is not known")
    return f"{charset_of_collation(inherited)}_{collation}"


def known_charset(name: str, context: DdlContext) -> Charset:
    """The charset that a statement names.

    Raises:
        DdlError: There is no charset of that name.
    """
    if name.lower() == "utf8" and context.reads_utf8_as_utf8mb4:
        return CHARSETS["utf8mb4"]
    charset = charset_named(name)
    if charset is None:
        raise DdlError(f"no charset is named {name!r}")
    return charset


def known_collation(name: str, context: DdlContext) -> str:
    """The collation that a statement names; if it is too new for the list of collations, its charset must be known.

    Raises:
        DdlError: Its charset is not known either.
    """
    if name.lower().startswith("utf8_") and context.reads_utf8_as_utf8mb4:
        name = "utf8mb4_" + name[5:]
    collation = collation_named(name)
    if collation is None:
        if charset_of_collation(name.lower()) not in CHARSETS:
            raise DdlError(f"no collation is named {name!r}")
        return name.lower()
    return collation


@lru_cache(maxsize=1024)
def charset_of(collation: str) -> Charset:
    """The charset that a canonical collation belongs to."""
    return CHARSETS[charset_of_collation(collation)]
