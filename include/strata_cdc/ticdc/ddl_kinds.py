"""The kinds of DDL that schema files have, as far as they differ in what they do to rows.
Not here: what becomes of rows (`quadrants.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strata_cdc.ticdc.schema_files import SchemaFile


class DdlKind(StrEnum):
    """A kind of DDL, in the words of TiDB."""

    STATE = "state"
    """No DDL: the table as it was when the feed began, or when the table moved to another node."""
    CREATE_TABLE = "create table"
    DROP_TABLE = "drop table"
    DROP_DATABASE = "drop database"
    ADD_COLUMN = "add column"
    DROP_COLUMN = "drop column"
    CHANGE_COLUMN = "modify column"
    ADD_INDEX = "add index"
    """Indexes, keys, constraints."""
    TRUNCATE = "truncate table"
    RENAME_TABLE = "rename table"
    EXCHANGE_PARTITION = "exchange partition"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    PARTITIONS = "partitions"
    """Partitions are emptied or cut in another way: new ones have the place of those before."""
    MULTIPLE = "multi-schema change"
    PROPERTIES = "properties"
    """What touches no row: comments, defaults, charsets of tables, placement, TTL, TiFlash."""
    UNKNOWN = "unknown"
    """A kind that TiDB got later."""


_NUMBERS: Final = {
    DdlKind.CREATE_TABLE: (3, 25, 28, 60),
    DdlKind.DROP_TABLE: (4,),
    DdlKind.DROP_DATABASE: (2,),
    DdlKind.ADD_COLUMN: (5, 37),
    DdlKind.DROP_COLUMN: (6, 38),
    DdlKind.CHANGE_COLUMN: (12,),
    DdlKind.ADD_INDEX: (7, 8, 9, 10, 18, 41, 43, 44, 45, 48, 73),
    DdlKind.TRUNCATE: (11,),
    DdlKind.RENAME_TABLE: (14, 47),
    DdlKind.EXCHANGE_PARTITION: (42,),
    DdlKind.ADD_PARTITION: (19,),
    DdlKind.DROP_PARTITION: (20,),
    DdlKind.PARTITIONS: (23, 64, 71, 72),
    DdlKind.MULTIPLE: (61,),
    DdlKind.PROPERTIES: (13, 15, 16, 17, 22, 27, 29, 30, 31, 39, 40, 49, 50, 54, 56, 57, 58, 59, 65, 67, 74, 75),
}
"""By the numbers of TiDB's `ActionType` (pkg/meta/model/job.go). ADD and DROP PRIMARY KEY (32, 33) are unknown on
purpose: the key of the rows changes."""
_KINDS: Final = {number: kind for kind, numbers in _NUMBERS.items() for number in numbers}


def kind_of(file: SchemaFile) -> DdlKind:
    """The kind of DDL that made a version."""
    if not file.query and not file.type:
        return DdlKind.STATE
    return _KINDS.get(file.type, DdlKind.UNKNOWN)
