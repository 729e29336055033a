"""Golden cases: statements of ours, and what a real server showed after each of them.
`python -m tests.schema.golden [NAME...]` records the answers anew; the server's version stands in them."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import ddl_events, read_transactions
from strata_cdc.schema.ddl.context import DdlContext, context_of, statement_text
from tests.mysql_server import MysqlServer, start_server
from tests.schema.differential import run_and_record

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = Path(__file__).parent / "cases"
_DEFAULTS = asdict(DdlContext())


def statements_of(path: Path) -> list[str]:
    """The statements of a case: each ends with a semicolon at the end of a line; `-- ` lines are remarks."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("-- ")]
    return [part.strip() for part in "\n".join(lines).split(";\n") if part.strip()]


def record(path: Path, server: MysqlServer) -> dict[str, Any]:
    """Runs a case on a server that holds no databases, and takes down what it logged and showed."""
    observer, connection = server.connect(), server.connect()
    with observer.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("SELECT VERSION()")
        version = cursor.fetchone()[0]
    statements = [statement.rstrip(";") for statement in statements_of(path)]
    refused: list[str] = []
    recorded = list(run_and_record(connection, observer, statements, refused.append))
    logged = list(_logged(server.binlog_dir / recorded[-1].file))
    steps, before = [], {}
    for one in recorded:
        events = [event for end, event in logged if end <= one.end]
        logged = [(end, event) for end, event in logged if end > one.end]
        changed = {name: one.shown.get(name) for name in one.shown | before if one.shown.get(name) != before.get(name)}
        steps.append({"events": events, "changed": changed})
        before = one.shown
    with connection.cursor() as cursor:
        for database in {name.partition(".")[0] for name in before} | _databases(cursor):
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
    observer.close()
    connection.close()
    return {"server": version, "refused": refused, "steps": steps}


def _databases(cursor: Any) -> set[str]:
    cursor.execute("SHOW DATABASES")
    return {name for (name,) in cursor.fetchall()} - {"mysql", "sys", "performance_schema", "information_schema"}


def _logged(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_binlog(path) as binlog:
        for transaction in read_transactions(binlog):
            for event in ddl_events(binlog, transaction):
                context = asdict(context_of(event.query, binlog.format))
                del context["thread_id"]  # another one each time
                said = {name: value for name, value in context.items() if value != _DEFAULTS[name]}
                yield transaction.end, {"statement": statement_text(event.query), "context": said}


def context_from(said: dict[str, Any]) -> DdlContext:
    """The context of a recorded event."""
    return DdlContext(**{name: said[name] for name in DdlContext.__struct_fields__ if name in said})


def main(names: list[str]) -> None:
    """Records the named cases, or all."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as server:
        for path in sorted(CASES.glob("*.sql")):
            if not names or path.stem in names:
                answer = record(path, server)
                text = json.dumps(answer, ensure_ascii=False, indent=1) + "\n"
                path.with_suffix(".json").write_text(text)
                print(path.stem, len(answer["steps"]), "versions,", len(answer["refused"]), "refused")
                for statement in answer["refused"]:
                    print("  refused:", statement[:160])


if __name__ == "__main__":
    main(sys.argv[1:])
