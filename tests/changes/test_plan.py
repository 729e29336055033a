"""However a stream is cut into slices, the rows are the same."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from strata_cdc.binlog.bytes.files import BinlogFile, open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.model import TableMap
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.changes.decode import decode_slice
from strata_cdc.changes.physical import physical_definition
from strata_cdc.changes.plan import Plan, Slice, cut_slices
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.versions import SchemaVersion
from strata_cdc.schema.model.definition import TableDefinition, TableName, definition_from_json

RECORDED = Path(__file__).with_name("recorded")
FILES = ("many_rows", "every_type", "compressed", "no_checksum")


def records_of(binlog: BinlogFile, split_bytes: int):
    index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format)
    scanner = TransactionScanner(
        binlog.format, chain=chain_of(binlog, 4), binlog_file=binlog.name, split_bytes=split_bytes
    )
    return [record for batch in scanner.scan(binlog.buffer, index) for record in batch.records()]


def _definitions(path: Path) -> dict[TableName, TableDefinition]:
    found = json.loads(path.with_suffix(".definitions.json").read_text())
    return {TableName(*name.split(".")): definition_from_json(json.dumps(each)) for name, each in found.items()}


class Versions:
    """Every table has one version, but for those that change at a transaction."""

    def __init__(self, definitions, changed_at: dict[TableName, int] | None = None, unknown: TableName | None = None):
        self.definitions, self.changed_at, self.unknown = definitions, changed_at or {}, unknown

    def __call__(self, table: TableName, seq: int) -> SchemaVersion:
        if table == self.unknown:
            raise SchemaGapError("nobody knows")
        version = 1 + (seq >= self.changed_at.get(table, 1 << 60))
        return SchemaVersion(version, self.definitions[table], "print", 0, None)


def rows_of(plan: Plan, binlog: BinlogFile):
    found = []
    for each in plan.slices:
        piece = msgspec.json.decode(msgspec.json.encode(each), type=Slice)
        assert piece == each
        for step in decode_slice(piece, binlog):
            assert isinstance(step, ChangeBatch)
            found += [{**row, "table": str(step.table)} for row in step.batch.to_pylist()]
    return sorted(found, key=lambda row: (row["_seq"], row["_row"]))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("target", "split"), [(1 << 30, 1 << 30), (1, 1 << 30), (700, 1 << 30), (200, 100), (1, 1)])
def test_slices_of_any_size_give_the_same_rows(file, target, split):
    path = RECORDED / f"{file}.binlog"
    definitions = _definitions(path)
    with open_binlog(path) as binlog:
        whole = cut_slices(records_of(binlog, 1 << 30), Versions(definitions), source="s", segment=str(path))
        assert len(whole.slices) == 1
        cut = cut_slices(
            records_of(binlog, split), Versions(definitions), source="s", segment=str(path), target_bytes=target
        )
        assert [piece.begin for piece in cut.slices[1:]] >= [piece.end for piece in cut.slices[:-1]]
        assert target > 1000 or len(cut.slices) > 1
        expected = rows_of(whole, binlog)
        assert expected
        assert rows_of(cut, binlog) == expected
        assert len({piece.key for piece in cut.slices}) == len(cut.slices)


def test_large_transactions_are_cut_inside():
    path = RECORDED / "many_rows.binlog"
    with open_binlog(path) as binlog:
        plan = cut_slices(
            records_of(binlog, 1), Versions(_definitions(path)), source="s", segment=str(path), target_bytes=1
        )
    inside = [piece for piece in plan.slices if piece.inside is not None]
    assert any(piece.first_row > 0 and piece.table_maps for piece in inside)


def test_a_slice_ends_where_a_table_with_rows_changes():
    path = RECORDED / "many_rows.binlog"
    definitions = _definitions(path)
    many = next(name for name in definitions if name.table == "many")
    with open_binlog(path) as binlog:
        records = records_of(binlog, 1 << 30)
        last = records[-1].seq
        plan = cut_slices(records, Versions(definitions, {many: last}), source="s", segment=str(path))
        assert [[(table.table, table.version_id) for table in piece.tables] for piece in plan.slices] == [
            [("many", 1)],
            [("many", 2), ("other", 1)],
        ]
        assert len(rows_of(plan, binlog)) == 200 + 66 + 3 + 50


def test_tables_that_nobody_knows_are_refused_and_the_others_go_on():
    path = RECORDED / "many_rows.binlog"
    definitions = _definitions(path)
    many, other = sorted(definitions)
    with open_binlog(path) as binlog:
        plan = cut_slices(
            records_of(binlog, 1 << 30), Versions(definitions, unknown=many), source="s", segment=str(path)
        )
        assert [(refusal.table, refusal.rows) for refusal in plan.refused] == [(many, 316)]
        assert plan.refused[0].error.table == str(many)
        rows = rows_of(plan, binlog)
    assert {row["table"] for row in rows} == {str(other)}
    # The rows of the refused table still count in the transaction.
    assert [row["_row"] for row in rows] == [66, 67, 68]


def test_a_refused_table_is_looked_up_once_for_all_transactions_for_which_that_holds():
    path = RECORDED / "many_rows.binlog"
    versions, asked = Versions({}, unknown=None), []

    def look_up(table: TableName, seq: int):
        asked.append(table)
        return versions(table, seq)

    with open_binlog(path) as binlog:
        records = records_of(binlog, 1 << 30)
        plan = cut_slices(records, look_up, source="s", segment=str(path), lasts=lambda _table, _seq: 1 << 60)
    assert sum(refusal.rows for refusal in plan.refused) == 319
    assert len(asked) == len(set(asked)) == 2


def test_definitions_of_maps_are_physical():
    path = RECORDED / "every_type.binlog"
    with open_binlog(path) as binlog:
        index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format)
        events = [
            parse_event(binlog.buffer, int(position), int(length), binlog.format)
            for position, length in zip(index.positions, index.lengths, strict=True)
        ]
    table_map = next(event for event in events if isinstance(event, TableMap))
    columns = physical_definition(table_map).columns
    assert [column.name for column in columns] == [f"@{at + 1}" for at in range(len(columns))]
    assert [column.column_type for column in columns[:8]] == [
        "int", "tinyint", "smallint unsigned", "mediumint", "int unsigned", "bigint", "bigint unsigned", "decimal(20,6)"
    ]  # fmt: skip


def test_a_slice_ends_behind_the_transaction_that_makes_it_large_enough():
    path = RECORDED / "many_rows.binlog"
    with open_binlog(path) as binlog:
        records = records_of(binlog, 1 << 30)
        small = min(record.end - record.begin for record in records)
        plan = cut_slices(records, Versions(_definitions(path)), source="s", segment=str(path), target_bytes=small + 1)
    ends = {record.end: record.begin for record in records}
    for piece in plan.slices[:-1]:
        assert ends[piece.end] - piece.begin < small + 1 <= piece.end - piece.begin
