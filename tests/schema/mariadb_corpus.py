"""The SQL of MariaDB's own test suite on a real MariaDB: every version of every table is compared with the server.

`tests/schema/fetch_mariadb_tests.sh FOLDER` fetches the suite, and `python -m tests.schema.mariadb_corpus FOLDER` runs
it, for hours; each difference is a line of JSON. Not here: how a file is read (`mysqltest.py`), the comparison
(`mariadb_differential.py`), the short run of the test suite (`test_mariadb_ddl.py`)."""

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
from typing import TYPE_CHECKING

import pymysql

from tests.mariadb_server import PREFIXES, start_mariadb
from tests.schema.mariadb_differential import run_and_compare
from tests.schema.mysqltest import statements_of_test

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mariadb_server import MariadbServer

OPTIONS = (
    "--innodb-doublewrite=OFF",
    "--binlog-row-metadata=FULL",
    "--sync-binlog=0",
    "--lock-wait-timeout=2",
    "--innodb-lock-wait-timeout=2",
    "--log-bin-trust-function-creators=1",
)
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
_OTHER_FILES = re.compile(
    r"/(?:galera\w*|wsrep|perfschema\w*|sys_vars|rpl|binlog\w*|mariabackup|large_tests|stress|mtr2?|spider|encryption)/"
)
"""Suites of several servers, and of what is no table."""


def main() -> int:
    """Runs the files and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with main, suite and include")
    parser.add_argument("--version", choices=PREFIXES, default="11.8")
    parser.add_argument("--files", default="", help="a regular expression that is in the paths of the files to run")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("N", "OF"), help="each OF-th, from N")
    parser.add_argument("--engine", default="InnoDB", help="of tables that name none")
    options = parser.parse_args()
    corpus = Corpus(options.folder, options.version, options.engine)
    files = [path for path in sorted(options.folder.rglob("*.test")) if not _OTHER_FILES.search(str(path))]
    files = [path for path in files if b"include/big_test.inc" not in path.read_bytes()]
    files = [path for path in files if re.search(options.files, str(path))]
    corpus.run(files[options.part[0] :: options.part[1]])
    print(json.dumps(corpus.counts))
    return 1 if corpus.counts["differences"] else 0


class Corpus:
    """Files of the suite, and what came of them."""

    def __init__(self, folder: Path, version: str, engine: str) -> None:
        self.folder = folder
        self.version = version
        self.engine = engine
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
    def _server(self) -> Iterator[MariadbServer]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            secure = f"--secure-file-priv={folder}"
            with start_mariadb(Path(folder), self.version, *OPTIONS, secure) as server:
                yield server

    def _run_file(self, server: MariadbServer, path: Path) -> None:
        name = str(path.relative_to(self.folder))
        statements = [one for one in statements_of_test(self.folder, path) if not _LEFT_OUT.search(one)]
        settings = ["CREATE DATABASE test", "USE test", "SET max_statement_time = 5"]
        settings.append(f"SET default_storage_engine = {self.engine}")
        self.counts["files"] += 1
        self._progress(name)
        try:
            report = run_and_compare(server, _for_a_while(statements), settings=settings, read_seconds=READ_SECONDS)
        except (pymysql.Error, UnicodeError, OSError) as error:
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
