"""Which generation of a change table takes rows of which shape.
Not here: committing to it (`commit.py`), types of single columns (`rows/arrow.py`).

A generation is one Delta table. A shape fits one if every column they share has the same type in both; columns that the
generation lacks are added, columns that the shape lacks are NULL. Other types start a new generation, wider ones too:
published files keep their types, and a table whose files differ from its schema needs Delta's `typeWidening`, which
deltalake 1.6 does not know and without which Spark refuses to read the files together.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import StructType
from msgspec import Struct

from strata.errors import LakeUnavailableError
from strata.tables.layout import GENERATIONS_FILE, table_url
from strata.wire.storage import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from strata.schema.model import TableName

FORMAT = 1
"""Number of the form of `_generations.json`."""


class Home(Struct, frozen=True):
    """Where rows of a shape go."""

    generation: int
    """From 1; one more than there are if a new one is needed."""
    added: tuple[Field, ...]
    """Columns that the generation has to be given first; a struct comes with its new fields alone."""


def open_generations(lake: str, source: str, table: TableName) -> list[DeltaTable]:
    """The generations of a change table as they are now, the first one first; empty if it was never published.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    found: list[DeltaTable] = []
    while True:
        url = table_url(lake, source, table, len(found) + 1)
        try:
            if not DeltaTable.is_deltatable(url):
                return found
            found.append(DeltaTable(url))
        except OSError as error:
            raise LakeUnavailableError(
                f"a Delta table cannot be opened: {error}", source=source, table=str(table)
            ) from error


def choose_home(generations: Sequence[DeltaTable], shape: pa.Schema) -> Home:
    """The generation for rows of a shape.

    A shape that was published before goes where it went then, whatever has been added since, so that a repeated
    interval finds its former files. A new one goes to the newest generation that it fits.
    """
    mark = shape_mark(shape)
    for number, generation in enumerate(generations, 1):
        if generation.transaction_version(mark) is not None:
            # Its columns are there: they came with the commit before the one that set the mark.
            return Home(number, ())
    incoming = Schema.from_arrow(shape).fields
    for number in range(len(generations), 0, -1):
        added = missing_fields(generations[number - 1].schema().fields, incoming)
        if added is not None:
            return Home(number, added)
    return Home(len(generations) + 1, ())


def shape_mark(shape: pa.Schema) -> str:
    """Id of the Delta transaction that says that a generation has taken rows of a shape."""
    return f"strata:shape:{hashlib.blake2b(Schema.from_arrow(shape).to_json().encode(), digest_size=10).hexdigest()}"


def missing_fields(published: Iterable[Field], incoming: Iterable[Field]) -> tuple[Field, ...] | None:
    """What a generation lacks of a shape, or None if the two do not fit.

    Names are compared with case, and two that differ by case alone do not fit: MySQL takes them for one column, Delta
    and Spark refuse a table with both.
    """
    by_name = {field.name: field for field in published}
    folded = {name.casefold() for name in by_name}
    added: list[Field] = []
    for field in incoming:
        known = by_name.get(field.name)
        if known is None:
            if field.name.casefold() in folded:
                return None
            added.append(field)
        elif known.type != field.type:
            inner = _missing_inside(known, field)
            if inner is None:
                return None
            added += inner
    return tuple(added)


def _missing_inside(known: Field, field: Field) -> tuple[Field, ...] | None:
    """As `missing_fields`, for the image inside `_before`, the only struct that grows."""
    if field.name != "_before" or not isinstance(known.type, StructType) or not isinstance(field.type, StructType):
        return None
    inner = missing_fields(known.type.fields, field.type.fields)
    if not inner:
        return inner
    return (Field("_before", StructType(list(inner)), nullable=True),)


def list_generations(lake: str, source: str, table: TableName, generations: Sequence[DeltaTable]) -> None:
    """Writes the table's `_generations.json` if it does not list what there is.

    Delta's logs are what counts; the list is for people and for readers that cannot list folders, and a later
    publication mends it if this one dies before it.

    Raises:
        LakeUnavailableError: The storage does not take the file.
    """
    root = table_url(lake, source, table)
    url = f"{root}/{GENERATIONS_FILE}"
    entries = [
        {
            "generation": number,
            "path": table_url(lake, source, table, number)[len(root) :].lstrip("/") or ".",
            "columns": {field.name: _type_text(field) for field in generation.schema().fields},
        }
        for number, generation in enumerate(generations, 1)
    ]
    content = json.dumps({"format": FORMAT, "table": str(table), "generations": entries}, ensure_ascii=False, indent=1)
    if read_file(url) != content.encode():
        write_file(url, content.encode())


def _type_text(field: Field) -> object:
    return json.loads(field.to_json())["type"]
