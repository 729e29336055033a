"""Mirrors as other programs read them, after every kind of commit; and what becomes of a mirror that they changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from strata_cdc.errors import DamagedFileError, MirrorDivergedError
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.apply_ddl import altered, converted_rows, emptied
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.ddl_plan import CannotFollowError, FilesAction, plan_alter
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import read_snapshot
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.effects import effect_of, origins_by_name
from strata_cdc.schema.history.versions import TableChange
from strata_cdc.schema.model.definition import Column
from strata_cdc.schema.model.partitions import Function, HeldRows, Partition, Partitioning
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect
from tests.mirrors.delta_readers import READERS, by_deltalake, by_polars
from tests.mirrors.model import COLUMNS, Model, Row, opened, position, rows_of
from tests.mirrors.test_golden import GOLDEN
from tests.tables.changes import ORDERS, definition
from tests.views.test_views import load_delta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.model.definition import TableDefinition


MODES = list(Mode)
_HOUR_MS = 3_600_000


def assert_read(mirror: Mirror, rows: list[Row], version: int | None = None) -> None:
    for reader in READERS if version is None else (by_deltalake, by_polars):
        found = reader(mirror.url, version).to_pylist()
        assert sorted((tuple(row[name] for name in COLUMNS) for row in found), key=repr) == rows, reader.__name__


@pytest.mark.parametrize("mode", MODES)
def test_every_reader_sees_the_rows_after_every_kind_of_commit(tmp_path: Path, mode: Mode) -> None:
    model, lake = Model(1, limits=MirrorLimits(checkpoint_commits=4)), str(tmp_path)
    model.live(70)
    model.create(lake, mode)
    seen = {}
    for cut in (30, 40, 50, 60, 66, 70):
        mirror = model.bring(lake, cut)
        seen[mirror.snapshot.version] = model.states[cut]
        assert_read(mirror, model.states[cut])
        if cut == 50:
            mirror, done = compact(mirror)
            assert done.rows_rewritten
            assert_read(mirror, model.states[cut])
    for version, rows in seen.items():
        assert_read(mirror, rows, version)
    vacuum(mirror, now_micros=0, retain_hours=0)
    for version, rows in seen.items():
        assert_read(mirror, rows, version)
    assert vacuum(mirror, now_micros=4 * 10**15, retain_hours=0).files
    assert_read(opened(lake), model.states[70])
    assert rows_of(opened(lake)) == model.states[70]
    mirror = emptied(opened(lake), position(71), mirror.definition)
    assert_read(mirror, [])


@pytest.mark.parametrize("hours", range(0, 8, 2))
def test_who_reads_a_state_within_its_hours_finds_its_files(tmp_path: Path, hours: int) -> None:
    model, lake = Model(6), str(tmp_path)
    model.live(60)
    model.create(lake)
    for cut in (20, 30, 40, 50, 56):
        model.bring(lake, cut)
    compact(opened(lake))
    model.bring(lake, 60)
    now = 10_000 * _HOUR_MS
    newest = opened(lake).snapshot.version
    for version in range(newest + 1):
        _commit_at(opened(lake), version, now - (newest - version) * _HOUR_MS)
    held = {version: read_snapshot(opened(lake).url, version) for version in range(newest + 1)}
    done = vacuum(opened(lake), now_micros=now * 1000, retain_hours=hours)
    assert done.oldest_version == newest - hours
    assert done.files or hours
    for version, snapshot in held.items():
        if version >= done.oldest_version and snapshot is not None:
            mirror = replace(opened(lake), snapshot=snapshot)
            assert rows_of(mirror) == model.states[mirror.position.seq]


def _commit_at(mirror: Mirror, version: int, time_ms: int) -> None:
    """As if a version had been committed then, and its files written."""
    path = Path(mirror.url, "_delta_log", f"{version:020}.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["commitInfo"]["timestamp"] = time_ms
    path.write_text("\n".join(map(json.dumps, lines)))
    for file in [*Path(mirror.url).glob("data/*"), *Path(mirror.url).glob("_dv/*")]:
        os.utime(file, (0, 0))


@pytest.mark.parametrize("mode", MODES)
def test_every_reader_sees_the_rows_after_the_rarer_commits(tmp_path: Path, mode: Mode) -> None:
    """Marks, one transaction in pieces, and a table that was dumped again over what was there."""
    model, lake = Model(2), str(tmp_path)
    model.live(60)
    model.create(lake, mode)
    seen = {}

    def note(mirror: Mirror, rows: list[Row]) -> None:
        assert_read(mirror, rows)
        seen[mirror.snapshot.version] = rows

    mirror = model.bring(lake, 30)
    note(mirror.stopped_for("a reason"), model.states[30])
    ordered = model.changes(30).sort_by([("_seq", "ascending"), ("_row", "ascending")])
    rest = [ordered.slice(at, 9) for at in range(9, ordered.num_rows, 9)]
    mirror = Applier(opened(lake)).apply(ordered.slice(0, 9), position(60), lambda: rest)
    note(mirror, model.states[60])
    again = mirror.to_arrow(list(COLUMNS))
    mirror = Mirror.create(
        lake, "s", mirror.table, model.definition, [again], position(60), mode=mode, replacing=mirror
    )
    note(mirror, model.states[60])
    note(mirror.dropped(position(61)), model.states[60])
    for version, rows in seen.items():
        assert_read(mirror, rows, version)


@pytest.mark.parametrize("full", [False, True])
def test_the_vacuum_of_deltalake_leaves_a_mirror_whole(tmp_path: Path, full: bool) -> None:
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    for cut in (30, 45, 52, 56, 60):
        mirror = model.bring(lake, cut)
    assert any(file.vector for file in mirror.snapshot.files.values())
    DeltaTable(mirror.url).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=full)
    assert rows_of(opened(lake)) == model.states[60]
    assert_read(opened(lake), model.states[60])
    model.live(10)
    assert rows_of(model.bring(lake)) == model.states[70]


def test_a_mirror_that_another_program_compacted_goes_on(tmp_path: Path) -> None:
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    for cut in (30, 52, 57, 60):
        model.bring(lake, cut)
    DeltaTable(opened(lake).url).optimize.compact()
    mirror = opened(lake)
    assert [one.changes_rows for one in mirror.snapshot.foreign] == [False]
    assert rows_of(mirror) == model.states[60]
    model.live(20)
    assert rows_of(model.bring(lake)) == model.states[80]
    assert_read(opened(lake), model.states[80])


def append(mirror: Mirror) -> None:
    write_deltalake(mirror.url, mirror.to_arrow().slice(0, 1), mode="append")


def delete(mirror: Mirror) -> None:
    DeltaTable(mirror.url).delete("id > 3")


def overwrite(mirror: Mirror) -> None:
    write_deltalake(mirror.url, mirror.to_arrow().slice(0, 2), mode="overwrite")


@pytest.mark.parametrize("write", [append, delete, overwrite])
def test_a_mirror_that_another_program_wrote_to_is_told_and_left(
    tmp_path: Path, write: Callable[[Mirror], None]
) -> None:
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    mirror = model.bring(lake, 40)
    write(mirror)
    with pytest.raises(MirrorDivergedError, match=f"version {mirror.snapshot.version + 1}"):
        model.bring(lake)
    with pytest.raises(MirrorDivergedError):
        compact(mirror)
    assert opened(lake).snapshot.version == mirror.snapshot.version + 1


def test_files_that_somebody_deleted_are_told(tmp_path: Path) -> None:
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    mirror = model.bring(lake, 60)
    for file in Path(mirror.url, "data").iterdir():
        file.unlink()
    with pytest.raises(DamagedFileError, match="is gone"):
        rows_of(opened(lake))
    model.live(5)
    with pytest.raises(DamagedFileError, match="is gone"):
        model.bring(lake)


def test_a_log_of_an_older_version_is_read_behind_a_change_of_type(tmp_path: Path) -> None:
    """Its commits have bounds, which are of the types of before."""
    lake = str(shutil.copytree(GOLDEN / "1", tmp_path / "lake"))
    mirror = opened(lake)
    (value,) = mirror.to_arrow(["n"])["n"].drop_null()[:1].to_pylist()
    after = definition({**COLUMNS, "n": "varchar(9)"})
    changes = read_ddl("ALTER TABLE t MODIFY n VARCHAR(9)", DdlContext("shop", 90704))
    change = TableChange(
        ORDERS, after, effect=effect(mirror.definition, after, changes), version_id=2, order=(36, 1, 2)
    )
    mirror = altered(mirror, change, position(36))
    wanted = mirror.to_arrow(["n"])["n"].to_pylist().count(str(value))
    with duckdb.connect() as connection:
        load_delta(connection)
        found = connection.execute(f"SELECT count(*) FROM delta_scan('{mirror.url}') WHERE n = '{value}'").fetchone()
    assert found == (wanted,)
    assert wanted


def effect(before: TableDefinition, after: TableDefinition, changes: Iterable[Change]) -> RowEffect:
    return effect_of(before, after, changes, origins=origins_by_name(before, after))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


ALTERS: dict[str, tuple[FilesAction, dict[str, object]]] = {
    "ADD COLUMN c INT": (FilesAction.KEEP, {"c": None}),
    "ADD COLUMN c INT NOT NULL DEFAULT 7": (FilesAction.REWRITE, {"c": 7}),
    "ADD COLUMN c VARCHAR(9) DEFAULT 'web' FIRST": (FilesAction.REWRITE, {"c": "web"}),
    "MODIFY n BIGINT": (FilesAction.REWRITE, {}),
    "ADD INDEX (n)": (FilesAction.KEEP, {}),
}


@pytest.mark.parametrize("alter", ALTERS)
def test_every_reader_sees_the_rows_behind_an_alter(tmp_path: Path, alter: str) -> None:
    action, gets = ALTERS[alter]
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    model.bring(lake, 30)
    mirror = model.bring(lake, 60)
    added = [
        Column("c", "varchar(9)" if "VARCHAR" in alter else "int", default=_text(value)) for value in gets.values()
    ]
    after = definition({**COLUMNS, "n": "bigint" if "BIGINT" in alter else "int"})
    after = replace(after, columns=(*added, *after.columns) if "FIRST" in alter else (*after.columns, *added))
    changes = read_ddl(f"ALTER TABLE t {alter}", DdlContext("shop", 90704))
    change = TableChange(
        ORDERS, after, effect=effect(mirror.definition, after, changes), version_id=2, order=(61, 1, 2)
    )
    files = mirror.snapshot.files
    plan = plan_alter(mirror, change, Renames.COPY)
    mirror = altered(mirror, change, position(61))
    assert (plan.action, plan.definition, plan.columns) == (action, after, mirror.schema)
    assert (mirror.snapshot.files.keys() == files.keys()) == (action is FilesAction.KEEP)
    assert_read(mirror, model.states[60])
    for reader in READERS:
        for row in reader(mirror.url, None).to_pylist():
            assert gets.items() <= row.items()
    applier = Applier(mirror)
    assert applier.mirror.definition == after


LISTS = Partitioning(False, ("id",), Function.ITSELF, (Partition("p", values=((1,), (2,))),))
NOT_OF_AN_ALTER = {
    "which rows is known": RowEffect(kind=EffectKind.REMOVE, partitions=("p",), held=HeldRows(LISTS, ("p",))),
    "which rows is not known": RowEffect(kind=EffectKind.REMOVE, partitions=("p",), reason="why"),
    "exchange": RowEffect(kind=EffectKind.EXCHANGE, held=HeldRows(LISTS, ("p",)), brings_rows=True),
}


@pytest.mark.parametrize("name", NOT_OF_AN_ALTER)
def test_an_alter_that_removes_rows_of_partitions_empties_no_mirror(tmp_path: Path, name: str) -> None:
    """No server has such a statement, and the tracker makes none: but it must not empty a mirror."""
    model, lake = Model(4), str(tmp_path)
    model.live(60)
    model.create(lake)
    mirror = model.bring(lake, 60)
    change = TableChange(ORDERS, mirror.definition, effect=NOT_OF_AN_ALTER[name], version_id=2, order=(61, 1, 2))
    with pytest.raises(CannotFollowError, match=r"a statement (removed|brought) (the )?rows"):
        altered(mirror, change, position(61))
    with pytest.raises(CannotFollowError):
        list(converted_rows(mirror, change))
    assert_read(opened(lake), model.states[60])
