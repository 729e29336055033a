"""The SQL of the servers' own test suites on a real server: every version of every table is compared with the server.

`tests/schema/fetch_server_suite.sh mysql FOLDER` (or `mariadb`) fetches a suite, and `python -m
tests.schema.server_suites mysql FOLDER` runs it, for an hour; each difference is a line of JSON. Not here: how a file
is read (`mysqltest.py`), the comparison (`differential.py`, `mariadb_differential.py`), the short runs of the test
suite (`test_differential.py`, `test_mariadb_ddl.py`)."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pymysql

from strata_cdc.schema.replay.catalog import Catalog
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.mysql_server import start_server
from tests.schema.differential import Recorded, Report, compare, run_and_record
from tests.schema.mariadb_differential import run_and_compare
from tests.schema.mysqltest import statements_of_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.mysql_server import MysqlServer

OPTIONS = (
    "--innodb-doublewrite=OFF",
    "--binlog-row-metadata=FULL",
    "--sync-binlog=0",
    "--lock-wait-timeout=2",
    "--innodb-lock-wait-timeout=2",
    "--log-bin-trust-function-creators=1",
    # Events would change tables between a statement and the comparison.
    "--event-scheduler=OFF",
)
_FOLDERS = {"mysql": "usr/*/mysql-test", "mariadb": "usr/share/mariadb/mariadb-test"}
"""Where the packages have the suites."""
FILES_OF_A_SERVER = 20
"""After as many files there is a new server: some files change global variables and the system's own tables."""
READ_SECONDS = 20
FILE_SECONDS = 60
_LEFT_OUT = re.compile(
    r"""\b(?:sql_log_bin|binlog_format|max_binlog_size|max_statement_time|time_zone|event_scheduler|shutdown)\b
    | \bdebug | \b(?:MERGE|MRG_MYISAM)\b | \b(?:DATA|INDEX)\s+DIRECTORY\b | \bINTO\s+(?:OUTFILE|DUMPFILE)\b
    | \bSLEEP\s*\( | \bRESET\s+(?:MASTER|BINARY)\b | \bPURGE\s | \bFLUSH\b[^;]*\bLOGS\b
    | \A\s*(?:KILL|RESET|CHANGE|START\s+(?:ALL\s+)?SLAVE|STOP|INSTALL|UNINSTALL|LOAD|BACKUP|BINLOG|SHOW|EXPLAIN|HELP
        |CHECK|FLUSH\s+TABLES\s+WITH|ANALYZE\s+(?:FORMAT|SELECT)|DESC(?:RIBE)?|SET\s+PASSWORD)\b
    | \A\s*\(*SELECT\b(?!.*(?:\bINTO\b|:=|NEXTVAL|SETVAL|NEXT\s+VALUE|\())""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""What changes no table, stops the server or its binlog, writes files elsewhere, or loads what the log does not know;
and time zones, in which literal defaults of TIMESTAMPs are shown."""
_LEFT_OUT_OF_MYSQL = re.compile(
    r"""\A\s*(?:CLONE|RESTART|XA|HANDLER|GRANT|REVOKE|LOCK\s+INSTANCE|SET\s+(?:@@)?(?:GLOBAL|PERSIST(?:_ONLY)?)
        |USE\s+(?:mysql|sys|performance_schema)
        |(?:CREATE|ALTER|DROP)\s+(?:INSTANCE|(?:UNDO\s+)?TABLESPACE|SERVER|USER|ROLE|SPATIAL\s+REFERENCE))\b
    | \b(?:gtid_next|lower_case_table_names|read_only|mysql\.\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""What changes the whole server, or tables of its own."""
_OTHER_FILES = re.compile(
    r"""/(?:galera\w*|wsrep|perfschema\w*|sys_vars|rpl\w*|binlog\w*|mariabackup|large_tests|stress|mtr2?|spider
        |encryption|group_replication|clone|x|auth_sec|component\w*|sysschema|ndb\w*|innodb_undo|audit\w*)/""",
    re.VERBOSE,
)
"""Suites of several servers, and of what is no table."""


class Family(Protocol):
    """The servers that a suite is for."""

    def start(self, folder: Path, *options: str) -> contextlib.AbstractContextManager[MysqlServer]:
        """Starts a server in an empty folder."""

    def compared(self, server: Any, statements: Iterator[str]) -> Report:
        """Runs statements in an empty database `test`, replays what the server logs of them, and compares."""

    def is_left_out(self, statement: str) -> bool:
        """Whether a statement is not run."""


class Mariadb:
    """MariaDB of a version, with tables of an engine where they name none."""

    def __init__(self, version: str, engine: str) -> None:
        self._version, self._engine = version, engine

    def start(self, folder: Path, *options: str) -> contextlib.AbstractContextManager[MysqlServer]:
        return start_mariadb(folder, self._version, *options)

    def compared(self, server: Any, statements: Iterator[str]) -> Report:
        settings = ["CREATE DATABASE test", "USE test", "SET max_statement_time = 5"]
        settings.append(f"SET default_storage_engine = {self._engine}")
        return run_and_compare(server, statements, settings=settings, read_seconds=READ_SECONDS)

    def is_left_out(self, statement: str) -> bool:
        return bool(_LEFT_OUT.search(statement))


class Mysql:
    """The MySQL that is installed, with tables of an engine where they name none."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def start(self, folder: Path, *options: str) -> contextlib.AbstractContextManager[MysqlServer]:
        return start_server(folder, "--max-execution-time=5000", *options)

    def compared(self, server: Any, statements: Iterator[str]) -> Report:
        observer = server.connect(read_timeout=READ_SECONDS)
        _empty(observer)
        connection = server.connect("test", read_timeout=READ_SECONDS)
        with connection.cursor() as cursor:
            cursor.execute(f"SET default_storage_engine = {self._engine}")
        recorded = list(_until_it_breaks(run_and_record(connection, observer, statements)))
        connection.close()
        observer.close()
        return compare(Catalog(), server.binlog_dir / recorded[-1].file, recorded) if recorded else Report()

    def is_left_out(self, statement: str) -> bool:
        return bool(_LEFT_OUT.search(statement) or _LEFT_OUT_OF_MYSQL.search(statement))


def _empty(observer: pymysql.Connection) -> None:
    with observer.cursor() as cursor:
        cursor.execute("SET foreign_key_checks = 0")
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in {"mysql", "sys", "performance_schema", "information_schema"}:
                cursor.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE test")


def _until_it_breaks(recorded: Iterable[Recorded]) -> Iterator[Recorded]:
    """A session that has locked tables in a transaction keeps the observer from looking at them."""
    with contextlib.suppress(pymysql.Error):
        yield from recorded


def main() -> int:
    """Runs the files and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=["mysql", "mariadb"])
    parser.add_argument("folder", type=Path, help="where the suite was put")
    parser.add_argument("--version", choices=PREFIXES, default="11.8", help="of MariaDB")
    parser.add_argument("--files", default="", help="a regular expression that is in the paths of the files to run")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("N", "OF"), help="each OF-th, from N")
    parser.add_argument("--engine", default="InnoDB", help="of tables that name none")
    options = parser.parse_args()
    family = Mysql(options.engine) if options.family == "mysql" else Mariadb(options.version, options.engine)
    [folder] = options.folder.glob(
        "usr/*/mysql-test" if options.family == "mysql" else "usr/share/mariadb/mariadb-test"
    )
    suite = Suite(folder, family)
    files = [path for path in sorted(folder.rglob("*.test")) if not _OTHER_FILES.search(str(path.relative_to(folder)))]
    files = [path for path in files if b"include/big_test.inc" not in path.read_bytes()]
    files = [path for path in files if re.search(options.files, str(path.relative_to(folder)))]
    suite.run(files[options.part[0] :: options.part[1]])
    print(json.dumps(suite.counts))
    return 1 if suite.counts["differences"] else 0


class Suite:
    """Files of a suite, and what came of them."""

    def __init__(self, folder: Path, family: Family) -> None:
        self.folder = folder
        self.family = family
        self.counts: Counter[str] = Counter()

    def run(self, files: Sequence[Path]) -> None:
        """Runs files, some on one server, and counts."""
        waiting = list(files)
        while waiting:
            with self._server() as server:
                for _ in range(FILES_OF_A_SERVER):
                    if not waiting or server.process.poll() is not None:
                        break
                    self._run_file(server, waiting.pop(0))

    @contextlib.contextmanager
    def _server(self) -> Iterator[MysqlServer]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            secure = f"--secure-file-priv={folder}"
            with self.family.start(Path(folder), *OPTIONS, secure) as server:
                yield server

    def _run_file(self, server: MysqlServer, path: Path) -> None:
        name = str(path.relative_to(self.folder))
        statements = [text for text in statements_of_test(self.folder, path) if not self.family.is_left_out(text)]
        self.counts["files"] += 1
        self._progress(name)
        try:
            report = self.family.compared(server, _for_a_while(statements))
        except (pymysql.Error, UnicodeError, ArithmeticError, OSError) as error:
            self._tell(name, failed=repr(error))
            self.counts["failed"] += 1
            server.kill()
            return
        except Exception as error:  # noqa: BLE001  # an error of Strata's is a result, too
            self._tell(name, error=repr(error), traceback=traceback.format_exc())
            self.counts["differences"] += 1
            server.kill()
            return
        self.counts["statements"] += report.statements
        self.counts["versions"] += report.versions
        self.counts["gaps"] += len(report.gaps)
        self.counts["differences"] += len(report.differences)
        for statement, text in report.gaps.items():
            self._tell(name, statement=statement, gap=text)
        for statement, text in report.differences:
            self._tell(name, statement=statement, difference=text)

    def _progress(self, name: str) -> None:
        print(f"{name} {dict(self.counts)}", file=sys.stderr, flush=True)

    def _tell(self, name: str, **what: str) -> None:
        print(json.dumps({"file": name, **what}), flush=True)


def _for_a_while(statements: Sequence[str]) -> Iterator[str]:
    end = time.monotonic() + FILE_SECONDS
    for statement in statements:
        if time.monotonic() > end:
            return
        yield statement


if __name__ == "__main__":
    sys.exit(main())
