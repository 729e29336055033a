"""The list of tables at the end of a stream, judged by what each table's own timeline answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.stream_positions import AtSeq

if TYPE_CHECKING:
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.model.definition import TableName


def assert_listed_as_each_answers(store: SchemaStore, source: str = "s") -> None:
    """Every name of the history is in the list with the version, the gap or the absence that the historian gives for
    it alone."""
    position = store.position(source)
    if position is None:
        return
    end = AtSeq(position.seq)
    listed = dict(History(store, source).tables(end))
    short = dict(History(store, source).names(end))
    assert short == {name: found if isinstance(found, Gap) else None for name, found in listed.items()}
    for name in store.tables(source):
        alone = _alone(store, source, name, end)
        found = listed.get(name)
        if found is None or isinstance(found, Gap):
            assert isinstance(alone, str), name
            assert found is None or found.reason in alone, name
        else:
            assert found == alone, name


def _alone(store: SchemaStore, source: str, name: TableName, end: AtSeq) -> object:
    try:
        return History(store, source).at(name, end)
    except SchemaGapError as error:
        return error.message
