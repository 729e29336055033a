"""The kinds of DDL that schema files have, by TiDB's numbers.
Not here: what becomes of rows (`quadrants.py`), the kinds (`schema/model/quadrants.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.quadrants import DdlKind

if TYPE_CHECKING:
    from strata_cdc.ticdc.schema_files import SchemaFile


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
