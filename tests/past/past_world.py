"""A real server whose tables are kept as they are at moments, and `strata sql` over the same moments.
Not here: the queries (`random_queries.py`), the life of the tables (`random_shop.py`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql
from pymysql.constants import FIELD_TYPE

from strata_cdc.errors import QueryError, StrataError
from strata_cdc.past.duckdb_engine import run_in_duckdb
from strata_cdc.past.query import answer
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from strata_cdc.config.settings import Source
    from strata_cdc.past.query import QueryEngine

INTEGERS = {FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.INT24, FIELD_TYPE.YEAR}
DECIMALS = {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}
TEXTS = {FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.BLOB, FIELD_TYPE.JSON, FIELD_TYPE.ENUM, FIELD_TYPE.SET}
TEXTS |= {FIELD_TYPE.VARCHAR, FIELD_TYPE.TINY_BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB}
_ALL_DIGITS = Context(prec=80)
SESSION = "SET time_zone = '+00:00'"


@dataclass
class Pairs:
    """What became of the queries."""

    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    both_fail: int = 0

    def __str__(self) -> str:
        refused, wrong = self.refused.total(), len(self.wrong)
        return f"{self.equal} equal, {refused} refused, {self.both_fail} fail on both, {wrong} wrong"


@dataclass
class PastWorld(MirrorWorld):
    """A source, and databases `kept_1`, `kept_2` and so on, in which its tables are as they were."""

    views: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The views that there were at each moment."""

    @property
    def readable(self) -> Source:
        """The source with its store, as the settings have it."""
        return replace(self.source, store_url=f"sqlite:///{self.folder}/store.db")

    def keep(self, number: int) -> str:
        """Copies all tables without logging it; gives the GTID set of this moment."""
        with self.server.connect(init_command=SESSION) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0, sql_mode = ''")
            cursor.execute(f"CREATE DATABASE kept_{number}")
            cursor.execute(
                "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = %s", (self.database,)
            )
            for name, kind in cursor.fetchall():
                if kind == "VIEW":
                    self._keep_view(cursor, number, name)
                    continue
                cursor.execute(f"CREATE TABLE kept_{number}.`{name}` LIKE `{self.database}`.`{name}`")
                cursor.execute(f"INSERT INTO kept_{number}.`{name}` SELECT * FROM `{self.database}`.`{name}`")
            cursor.execute(self.server.executed_sql)
            return str(cursor.fetchone()[0]).replace("\n", "")

    def _keep_view(self, cursor: pymysql.cursors.Cursor, number: int, name: str) -> None:
        """The rows of a view; none of a view that the server refuses."""
        self.views[number].append(name)
        with suppress(pymysql.err.MySQLError):
            cursor.execute(f"CREATE TABLE kept_{number}.`{name}` AS SELECT * FROM `{self.database}`.`{name}`")

    def columns(self, database: str) -> dict[str, list[tuple[str, str, str | None]]]:
        """Names, types and collations of the columns of a database, by table."""
        found: dict[str, list[tuple[str, str, str | None]]] = {}
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, column_name, column_type, collation_name FROM information_schema.columns "
                "WHERE table_schema = %s ORDER BY table_name, ordinal_position",
                (database,),
            )
            for table, name, kind, collation in cursor.fetchall():
                found.setdefault(table, []).append((name, kind, collation))
        return found

    def compare(self, query: str, number: int, at: str, pairs: Pairs, engine: QueryEngine = run_in_duckdb) -> None:
        """Asks the server and `strata sql` the same; `{db}` stands for the database."""
        try:
            rows, description = self.select(query.replace("{db}", f"kept_{number}"))
        except pymysql.err.MySQLError as error:
            rows, description = [], None
            refused = str(error)
        try:
            found = answer(self.readable, query.replace("{db}", self.database), at, engine).rows
        except QueryError as error:
            if description is None:
                pairs.both_fail += 1
            else:
                pairs.refused[error.message] += 1
            return
        except StrataError as error:
            pairs.wrong.append(f"moment {number}: {query}\n  {type(error).__name__}: {error}")
            return
        except Exception as error:  # noqa: BLE001  the query is in the report
            pairs.wrong.append(f"moment {number}: {query}\n  {type(error).__name__}: {error}")
            return
        if description is None:
            pairs.wrong.append(f"moment {number}: {query}\n  the server refuses: {refused}, and strata answers")
            return
        why = difference(rows, description, found, is_ordered="/* ordered */" in query)
        if why is None:
            pairs.equal += 1
        else:
            pairs.wrong.append(f"moment {number}: {query}\n  {why}")

    def select(self, query: str) -> tuple[list[tuple[Any, ...]], Any]:
        """The server's rows and the description of their columns."""
        with self.server.connect(init_command=SESSION) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall()), cursor.description


def difference(rows: list[tuple[Any, ...]], description: Any, found: pa.Table, *, is_ordered: bool) -> str | None:
    """How the answers differ; None if they do not."""
    names = [column[0] for column in description]
    if found.column_names != names:
        return f"names {found.column_names}, not {names}"
    for column, field_ in zip(description, found.schema, strict=True):
        if not is_type(column, field_.type):
            return f"{column[0]} is {field_.type}, and the server has type {column[1]} with {column[5]} decimals"
    mine = [tuple(plain(value) for value in row.values()) for row in _unique(found).to_pylist()]
    theirs = [tuple(plain(value) for value in row) for row in rows]
    if not is_ordered:
        mine, theirs = sorted(mine, key=repr), sorted(theirs, key=repr)
    if mine != theirs:
        return f"{mine[:6]} ({len(mine)}), not {theirs[:6]} ({len(theirs)})"
    return None


def _unique(found: pa.Table) -> pa.Table:
    return found.rename_columns([str(number) for number in range(found.num_columns)])


def is_type(column: Any, kind: pa.DataType) -> bool:
    """Whether a column of the server has this Arrow type."""
    code, scale = column[1], column[5]
    if pa.types.is_decimal(kind):
        # BIGINT UNSIGNED is a decimal in Arrow, and so is what is calculated without a sign.
        return (code in DECIMALS and kind.scale == scale) or (code in INTEGERS and kind.precision == 20)
    if pa.types.is_integer(kind):
        return code in INTEGERS or code == FIELD_TYPE.TIME
    if pa.types.is_floating(kind):
        return code in {FIELD_TYPE.DOUBLE, FIELD_TYPE.FLOAT}
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return code in TEXTS
    if pa.types.is_date(kind):
        return code in {FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE}
    if pa.types.is_timestamp(kind):
        return code in {FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP}
    return pa.types.is_null(kind)


def plain(value: Any) -> Any:
    """A value in a form that both sides have."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None) if value.tzinfo in {None, UTC} else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    if isinstance(value, Decimal) or type(value) is int:
        # The server shows a whole number among decimals without its zeros.
        return f"{Decimal(value).normalize(_ALL_DIGITS):f}"
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, date):
        return value.isoformat()
    return value


def executed(world: MirrorWorld) -> str:
    """What the server has executed now."""
    text = world.server.run_sql(world.server.executed_sql)
    return text.partition("\n")[2].replace("\\n", "").strip()


def rows(world: PastWorld, query: str, at: str | None = None) -> list[Any]:
    """The answer, each row as a tuple."""
    return [tuple(row.values()) for row in answer(world.readable, query, at).rows.to_pylist()]
