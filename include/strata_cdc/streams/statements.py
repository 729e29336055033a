"""The DDL of some transactions of a stream, as events for a reader.
Not here: reading DDL (`schema/ddl/`), the versions that it makes (`versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.named import named_databases, named_tables
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.streams.events import Ddl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.streams.events import TransactionPlace
    from strata_cdc.streams.filter import StreamFilter
    from strata_cdc.streams.progress import ChosenTransactions
    from strata_cdc.streams.versions import StatementVersions, StreamVersions


def statements_of(chosen: ChosenTransactions, versions: StreamVersions, wanted: StreamFilter) -> list[Ddl]:
    """Returns the statements that the reader does not have, in order.

    Args:
        chosen: The transactions.
        versions: The schema versions; they have tracked these transactions.
        wanted: The tables and databases that the reader wants.

    Raises:
        CorruptEventError: A statement cannot be read.
    """
    places, given = chosen.places, chosen.given
    seqs = places.with_statements()
    if not seqs:
        return []
    made = versions.made_between(seqs[0], seqs[-1])
    found = (one for seq in seqs for one in _of_transaction(chosen.item, places[seq], made, wanted))
    return [one for one in found if one.number > given.get(one.place.record.seq, 0)]


def _of_transaction(
    item: Transactions,
    place: TransactionPlace,
    made: Mapping[tuple[int, int], StatementVersions],
    wanted: StreamFilter,
) -> Iterator[Ddl]:
    record = place.record
    form = item.bytes().format
    for number, (_, query, _) in enumerate(item.statements(record), start=1):
        try:
            text = statement_text(query)
        except DdlError as fault:
            text = fault.ddl
        changes = read_ddl_or_gap(text, context_of(query, form))
        databases = named_databases(changes) or {query.database}
        if not changes or not any(map(wanted.database, databases)):
            continue
        mine = made.get((record.seq, number))
        tables = {one for one in named_tables(changes) | (mine.tables if mine else set()) if one.table}
        if not wanted.everything and not any(map(wanted.table, tables)):
            continue
        version = mine.version if mine else None
        named = tuple(sorted(map(str, tables)))
        yield Ddl(place, as_one_looks_at(text), number, named, version, frozenset(tables))
