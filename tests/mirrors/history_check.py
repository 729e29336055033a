"""Histories of mirrors held against what the server's SELECT gave at positions.
Not here: the statements (`random_life.py`, `test_history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.dialects.history import VALIDITY
from strata_cdc.errors import Usage
from strata_cdc.mirrors.histories.history import MirrorHistory, history_of
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.convert import state_schema
from tests.quality.compare_rows import compare_rows

if TYPE_CHECKING:
    from tests.mirrors.world import MirrorWorld

NOT_TOLD = ("the log has no image", "the log does not tell", "lacks it", "only what changed in the document")


def opened(world: MirrorWorld, table: str) -> MirrorHistory:
    mirror = world.mirror(table)
    assert mirror is not None
    return history_of(world.lake, mirror, table_changes_of(world.engine, "s"), removals_of(world.engine, "s"))


def by_duckdb(history: MirrorHistory) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return pa.table(history.to_duckdb(connection).arrow())


def by_duckdb_views(history: MirrorHistory) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in history.sql("duckdb", "files"):
            connection.execute(statement)
        name = f"{history.mirror.table.table}__history".replace('"', '""')
        return pa.table(connection.execute(f'SELECT * FROM shop."{name}"').arrow())


def by_polars(history: MirrorHistory) -> pa.Table:
    found: pl.DataFrame = history.to_polars().collect()
    return found.to_arrow(compat_level=pl.CompatLevel.oldest())


READERS = (by_duckdb, by_polars)


def reported(history: MirrorHistory, reader: Any) -> pa.Table | None:
    """What a reader gives; None where the log does not tell a value, which it then says."""
    try:
        return reader(history)
    except (duckdb.Error, pl.exceptions.PolarsError, Usage) as error:
        if not any(text in str(error) for text in NOT_TOLD):
            raise
        return None


def valid_at(found: pa.Table, seq: int) -> pa.Table:
    begun = pc.fill_null(pc.less_equal(found["_valid_from_seq"], seq), True)
    lasts = pc.fill_null(pc.greater(found["_valid_to_seq"], seq), True)
    return found.filter(pc.and_(begun, lasts))


def assert_valid(history: MirrorHistory, found: pa.Table, seq: int, selected: Any) -> None:
    """What a history says of a position is what SELECT gave there, in the columns that the table had then and now, and
    in their types of then."""
    assert found.schema.names[-len(VALIDITY) :] == [name for name, _ in VALIDITY]
    span = [one for one in history.spans if one.begins <= seq][-1]
    then = [fold_name(column.name) for column in span.definition.columns]
    pairs = [
        (at, then.index(fold_name(value.origin.column.name)))
        for at, value in enumerate(span.values)
        if value.origin.column is not None
    ]
    definition = replace(
        history.mirror.definition, columns=tuple(span.definition.columns[at] for _, at in pairs), keys=()
    )
    schema = state_schema(definition)
    # By number: a column that has one of our names has another one in the view.
    rows = valid_at(found, seq).select([at for at, _ in pairs]).rename_columns(schema.names).cast(schema)
    wanted = [tuple(row[at] for _, at in pairs) for row in selected]
    compared = compare_rows(TableState(definition, rows), wanted)
    assert (str(history.mirror.table), seq, compared.examples) == (str(history.mirror.table), seq, ())
    assert compared.equal
    assert rows.num_rows == len(selected)


def assert_spans(found: pa.Table) -> None:
    """Each version has a span, by all three clocks."""
    for side in ("from", "to"):
        has_seq = pc.is_valid(found[f"_valid_{side}_seq"])
        assert pc.equal(has_seq, pc.is_valid(found[f"_valid_{side}_gtid"])).to_pylist().count(False) == 0
        assert pc.equal(has_seq, pc.is_valid(found[f"_valid_{side}"])).to_pylist().count(False) == 0
    both = found.filter(pc.and_(pc.is_valid(found["_valid_from_seq"]), pc.is_valid(found["_valid_to_seq"])))
    assert pc.all(pc.less(both["_valid_from_seq"], both["_valid_to_seq"])).as_py() is not False
