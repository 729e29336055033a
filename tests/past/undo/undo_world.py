"""A real server on which scripts of `strata undo` are executed, by the `mysql` client or PyMySQL.
Not here: what the tables go through (the tests beside this file)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.past.undo.choice import Choice, ChosenGtids
from strata_cdc.past.undo.script import opening, script_lines
from strata_cdc.past.undo.steps import ColumnChoice, Direction
from strata_cdc.past.undo.undo import ChangeScript, UndoLimits
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.tracking.track_schema import track_landed
from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    import pymysql

    from strata_cdc.past.undo.undo import UndoReport
    from tests.mysql_server import MysqlServer

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b INT, c DECIMAL(8,2));"
ROWS = "INSERT INTO t VALUES (1, 'one', 1, 1), (2, 'two', 2, 2), (3, 'three', 3, 3);"
SESSION = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'"

FEW = UndoLimits(window_changes=7, held_changes=5)


def fresh(server: MysqlServer, database: str = "shop") -> None:
    """An empty database, and a binlog that begins with it."""
    server.run_sql(f"DROP DATABASE IF EXISTS {database}; {server.reset_sql}; CREATE DATABASE {database}")


class UndoWorld(PastWorld):
    """A source whose changes are taken back."""

    def marked(self) -> str:
        """What the server has executed, to be a border of a choice."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(self.server.executed_sql)
            return str(cursor.fetchone()[0]).replace("\n", "")

    def between(self, before: str, after: str) -> ChosenGtids:
        """The transactions between two marks."""
        if "-" in before and ":" not in before:
            domain, server, first = before.split("-")
            last = after.rpartition("-")[2]
            return ChosenGtids.parse(",".join(f"{domain}-{server}-{n}" for n in range(int(first) + 1, int(last) + 1)))
        name, _, numbers = after.rpartition(":")
        first = int(before.rpartition(":")[2].rpartition("-")[2])
        return ChosenGtids.parse(f"{name}:{first + 1}-{numbers.rpartition('-')[2]}")

    def changed(self, statements: str) -> ChosenGtids:
        """Runs statements; their transactions."""
        before = self.marked()
        self.server.run_sql(statements, "shop")
        return self.between(before, self.marked())

    def dump_source(self) -> DumpSource:
        """What a dump needs of the source."""

        def catch_up() -> None:
            land_binlog(self.source.address, lake=self.lake, source=self.name)
            track_landed(self.lake, self.name, self.engine)

        return DumpSource(self.name, self.source.address, self.lake, SchemaStore(self.engine), catch_up, self.mode)

    def script(
        self,
        choice: Choice,
        direction: Direction = Direction.UNDO,
        columns: ColumnChoice = ColumnChoice.CHANGED,
        limits: UndoLimits = FEW,
    ) -> tuple[str, UndoReport]:
        """A script and what is in it."""
        with ChangeScript(self.readable, choice, direction, columns, limits) as made:
            text = "\n".join(script_lines(made)) + "\n"
        return text, made.report

    def opening(self, choice: Choice) -> list[str]:
        """The statements of a script before those that change rows."""
        with ChangeScript(self.readable, choice) as made:
            for _ in made.outcomes():
                pass
            return [sql for kind, sql in opening(made) if kind != "comment"]

    def run(self, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        """Runs a script as users do: mysql < FILE."""
        command = [self.server.program("mysql"), "--no-defaults", f"--host={self.server.host}", "--user=root"]
        command += [f"--port={self.server.port}", "--batch", *options]
        if "mariadb" in command[0]:
            command.append("--skip-ssl")
        return subprocess.run(command, input=script.encode(), capture_output=True, check=False)

    def execute(self, script: str) -> None:
        """Runs a script that must succeed."""
        done = self.run(script)
        assert done.returncode == 0, (done.stderr.decode(), done.stdout.decode(), script)

    def rows(self, table: str, columns: str = "*", database: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of a table, in an order of their own, texts as bytes."""
        with self.server.connect(init_command=SESSION) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM `{database or self.database}`.`{table}`")
            return sorted(cursor.fetchall(), key=repr)

    def exact(self, table: str) -> dict[str, str]:
        """An expression for each column that shows all of its bytes."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND "
                "table_name = %s ORDER BY ordinal_position",
                (self.database, table),
            )
            return {name: exact(name, kind) for name, kind in cursor.fetchall()}


def execute_lines(cursor: pymysql.cursors.Cursor, script: str) -> None:
    """Runs a script in a driver, a line at a time."""
    for line in script.splitlines():
        if not line.startswith("--"):
            cursor.execute(line)


def exact(name: str, kind: str) -> str:
    """An expression that shows all bytes of a column."""
    quoted = f"`{name}`"
    if kind in {"float", "double"}:
        return f"{quoted} + 0e0"
    if kind in {"enum", "set", "bit"}:
        return f"{quoted} + 0"
    return f"HEX(CAST({quoted} AS BINARY))"
