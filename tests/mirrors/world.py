"""A real server and the mirrors of its tables: land, track, decode, publish and mirror in one process.
Not here: what must hold (the tests beside this file)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.follow.update_mirrors import MirrorReport, update_mirrors
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames, same_as, without_invalid
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import PublishedDetails, PublishedInterval, PublishedLedger
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tables.commit import publish
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_landed
from tests.quality.compare_rows import compare_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from strata_cdc.mirrors.follow.update_mirrors import MirrorOutcome
    from tests.mysql_server import MysqlServer


@dataclass
class MirrorWorld:
    """One source, its store and its lake."""

    server: MysqlServer
    folder: Path
    mode: Mode = Mode.DELETION_VECTORS
    database: str = "shop"
    name: str = "s"
    lake_url: str = ""
    """Of the lake; by default a folder."""
    renames: Callable[[TableName], Renames] = lambda _: Renames.COPY
    limits: MirrorLimits = MirrorLimits()
    file_limits: FileLimits = FileLimits()
    lock_wait_seconds: float = 30
    engine: sa.Engine = field(init=False)
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        address = ServerAddress.from_url(self.server.url)
        self.engine = open_store(f"sqlite:///{self.folder}/store.db")
        lake = self.lake_url or str(self.folder / "lake")
        self.source = Source(self.name, address, lake, "", SourceSettings("unused"))

    @property
    def lake(self) -> str:
        return self.source.lake

    def snapshot(self) -> None:
        """The schemas of tables that are older than the stream."""
        snapshot_schemas(self.source.address, self.engine, self.name)

    def publish(self, request: RunRequest | None = None, *, choice: WorkChoice | None = None) -> None:
        """Everything up to now, or what is asked for, or what is owed of it, without checks."""
        land_binlog(self.source.address, lake=self.lake, source=self.name)
        track_landed(self.lake, self.name, self.engine)
        stream = LandedStream.open(self.lake, self.name)
        # An interval is closed once its end has passed; MariaDB's times have no fractions.
        now = max(stream.clock + 1, time.time_ns() // 1000)
        request = request or (RunRequest(0, now) if choice is None else RunRequest(end=now, choice=choice))
        planned = plan_run(self.source, self.engine, stream, request, now=time.time_ns() // 1000)
        files = [
            file for task in planned_tasks(planned.run_url) for file in decode_slice_to_files(task, self.file_limits)
        ]
        store_decoded(planned.run_url, files)
        folder = run_folder(self.lake, self.name, planned.run)
        staged, plan = read_decoded(folder).files, read_plan(folder)
        ledger = TableIntervalLedger(self.engine)
        for one in plan.tables:
            table = TableName(one.database, one.table)
            mine = [file for file in staged if (file.name, file.interval) == (table, one.interval)]
            interval = plan.interval(one.interval)
            commit = publish(self.lake, self.name, table, one.interval, mine, span=interval)
            state = (one.counted, IntervalState.PUBLISHED, None, commit.rows if commit else 0)
            ledger.put([TableInterval(self.name, one.interval, one.database, one.table, *state)])
            if commit is not None:
                note = (one.full_name, commit.version, commit.rows, 0, PublishedDetails())
                PublishedLedger(self.engine).put(PublishedInterval(self.name, one.interval, *note))

    def update(self) -> MirrorReport:
        """All mirrors of the database."""
        return update_mirrors(
            self.lake,
            self.name,
            self.engine,
            lambda table: table.database == self.database,
            mode=self.mode,
            locks=self.locks(self.lock_wait_seconds),
            renames=self.renames,
            limits=self.limits,
        )

    def locks(self, wait_seconds: float = 30) -> MirrorLocks:
        """Of its mirrors."""
        return MirrorLocks(self.lake, self.name, self.source.address, wait_seconds=wait_seconds)

    def assert_equal(self) -> None:
        """Every table's mirror has the rows of `SELECT *`, and there are no others that are not marked."""
        with self.server.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type <> 'VIEW'",
                (self.database,),
            )
            names = sorted(name for (name,) in cursor.fetchall())
            for name in names:
                mirror = self.mirror(name)
                assert mirror is not None, name
                assert not mirror.is_dropped, name
                columns = ", ".join(f"`{column.name}`" for column in mirror.definition.columns)
                cursor.execute(f"SELECT {columns} FROM `{self.database}`.`{name}`")
                assert_rows(mirror, cursor.fetchall())

    def mirror(self, table: str) -> Mirror | None:
        """As it is now."""
        return Mirror.open(self.lake, self.name, TableName(self.database, table))


def without_mirrors(world: MirrorWorld) -> str:
    """A folder with the same change tables as the lake, and without its mirrors."""
    bare = world.folder / "bare"
    bare.mkdir(exist_ok=True)
    for one in Path(world.lake).iterdir():
        if one.name != "mirrors" and not (bare / one.name).exists():
            (bare / one.name).symlink_to(one)
    return str(bare)


def assert_rows(mirror: Mirror, selected: Any) -> None:
    """A mirror has these rows."""
    shown = mirror.to_arrow()
    for column in without_invalid(mirror.schema):
        assert shown[column.name].equals(shown[same_as(column)]), "a former name has what the column has"
    rows = shown.select(state_schema(mirror.definition).names)
    found = compare_rows(TableState(mirror.definition, rows), selected)
    assert (str(mirror.table), found.examples) == (str(mirror.table), ())
    assert found.equal, (str(mirror.table), rows.num_rows, len(selected))


def mirror_of(world: MirrorWorld, table: str) -> Mirror:
    """A mirror that is there."""
    mirror = world.mirror(table)
    assert mirror is not None
    return mirror


def outcomes(world: MirrorWorld) -> dict[str, MirrorOutcome]:
    """Updates all mirrors; what became of each, by the table's name."""
    return {outcome.table.removeprefix("shop."): outcome for outcome in world.update().mirrors}
