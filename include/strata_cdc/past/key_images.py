"""The keys of rows before and after changes, with those values that Arrow's types do not have, such as zero dates.
Not here: texts of keys (`key_texts.py`), which changes are wanted (`change_filters.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE, may_be_invalid
from strata_cdc.past.key_texts import KeyImage
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN, opened, verbatim_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from strata_cdc.schema.model.definition import Column


def facts_of_keys(columns: Sequence[Column]) -> tuple[str, ...]:
    """What has to be read of changes for the keys, besides the columns."""
    return (INVALID_COLUMN,) if any(map(may_be_invalid, columns)) else ()


def key_images(changes: pa.Table, columns: Sequence[Column]) -> Iterator[tuple[KeyImage, KeyImage]]:
    """For each column of a key, its values before the changes and after them. What an update leaves out stays as it
    was; after a delete, they are those before.

    Args:
        changes: With the columns, `_before`, and the facts of `facts_of_keys`.
        columns: In the definition of the changes.
    """
    images = changes[BEFORE].combine_chunks()
    for column in columns:
        name = column_name(column.name)
        before = KeyImage(images.field(images.type.get_field_index(name)), _verbatim(changes, column, f"{BEFORE}."))
        values, verbatim = changes[name].combine_chunks(), _verbatim(changes, column, "")
        if verbatim is None:
            yield before, KeyImage(pc.coalesce(values, before.values), before.verbatim)
            continue
        is_kept = pc.and_(values.is_null(), verbatim.is_null())
        kept = [pc.if_else(is_kept, *pair) for pair in ((before.values, values), (before.verbatim, verbatim))]
        yield before, KeyImage(*kept)


def _verbatim(changes: pa.Table, column: Column, image: str) -> pa.Array | None:
    if not may_be_invalid(column) or changes[INVALID_COLUMN].null_count == changes.num_rows:
        return None
    name = verbatim_name(column.name)
    return opened(changes[INVALID_COLUMN], [name], changes.num_rows, image)[name].combine_chunks()
