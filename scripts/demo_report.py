"""What the demo prints of the outcome: versions, rows, and early rows side by side.
Not here: producing any of it (`demo.py`), the proof (`demo_proof.py`)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from demo.shop import EARLY_KEYS
from strata_cdc.runs.run_folder import DECODED, read_decoded, read_verdicts, run_folder
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tables.read import read_columns

if TYPE_CHECKING:
    from rich.console import Console

    from strata_cdc.config.settings import Source
    from strata_cdc.files.storage import Folder

DDL_WIDTH = 70


def show_versions(source: Source, database: str, console: Console) -> None:
    """Every schema version of the shop's tables, in stream order."""
    store = SchemaStore(open_store(source.store_url))
    found = Table("version", "table", "after transaction", "DDL", title="Schema versions found", title_justify="left")
    for entry in sorted(store.all_entries(source.name), key=lambda entry: entry.order):
        if entry.name.database != database:
            continue
        ddl = " ".join((store.ddl(entry.version_id) or "").split())
        shown = ddl if len(ddl) <= DDL_WIDTH else ddl[: DDL_WIDTH - 1] + "…"
        gone = "" if entry.fingerprint else " (gone)"
        number = (entry.gtid or "").rpartition(":")[2]
        found.add_row(str(entry.version_id), f"{entry.name.table}{gone}", number, shown)
    console.print(found)


def show_rows(source: Source, database: str, console: Console) -> None:
    """Rows decoded, by table and schema version, and the results of the checks."""
    rows: Counter[tuple[str, int]] = Counter()
    checks: Counter[str] = Counter()
    failed, engines = 0, set[str]()
    for folder in _decoded_runs(source):
        decoded = read_decoded(folder)
        engines.add(str(decoded.engine))
        for file in decoded.files:
            if file.database == database:
                rows[file.table, file.version_id] += file.rows
        for verdict in read_verdicts(folder).values():
            failed += len(verdict.failures)
            for judged in verdict.tables:
                checks[judged.table] += judged.checks
    found = Table("table", "version", "row changes", title="Rows decoded", title_justify="left")
    for (table, version), count in sorted(rows.items()):
        found.add_row(table, str(version), f"{count:,}")
    found.add_row("[bold]all[/bold]", "", f"[bold]{sum(rows.values()):,}[/bold]")
    console.print(found)
    console.print(f"decoded by: {', '.join(sorted(engines))}")
    console.print(f"checks: {sum(checks.values()):,} run on {len(checks)} tables, {failed} failed")


def show_same_files(source: Source, console: Console) -> bool:
    """What each engine has decoded of the same rows; true if the files are the same, byte for byte."""
    files: dict[str, Counter[tuple[int, str, int, str]]] = {}
    for folder in _decoded_runs(source):
        decoded = read_decoded(folder)
        found = files.setdefault(str(decoded.engine), Counter())
        found.update((file.interval, str(file.name), file.version_id, file.digest) for file in decoded.files)
    for engine, found in files.items():
        console.print(f"decoded by {engine}: {found.total():,} files")
    first, *others = files.values()
    is_same = bool(others) and all(found == first for found in others)
    console.print("[green]the same bytes[/green]" if is_same else "[red]not the same bytes[/red]")
    return is_same


def _decoded_runs(source: Source) -> list[Folder]:
    """The folders of the runs that had rows to decode, the first run first."""
    runs = sorted(Path(source.lake, "runs", source.name).iterdir(), key=lambda path: path.stat().st_mtime)
    folders = [run_folder(source.lake, source.name, run.name) for run in runs]
    return [folder for folder in folders if folder.exists(DECODED)]


def show_early_rows(source: Source, database: str, early: dict[str, list[dict[str, Any]]], console: Console) -> bool:
    """Some of the first rows, as they were inserted and as they were decoded after all the DDL; true when equal."""
    found = Table("row", "column", "inserted", "decoded", title="Early rows, read late", title_justify="left")
    equal = True
    for table, rows in early.items():
        keys = EARLY_KEYS[table]
        changes = pa.concat_tables(read_columns(source.lake, source.name, TableName(database, table)))
        for row in rows:
            decoded = _first_insert(changes, {key: row[key] for key in keys})
            label = f"{table} {', '.join(str(row[key]) for key in keys)}"
            for column, value in row.items():
                late = _plain(decoded.get(column))
                equal &= late == value
                mark = "" if late == value else " [red]differs[/red]"
                found.add_row(label, column, _short(value), _short(late) + mark)
                label = ""
            found.add_section()
    console.print(found)
    return equal


def _first_insert(changes: pa.Table, key: dict[str, Any]) -> dict[str, Any]:
    """The oldest insert of a key as column -> value; empty if there is none. It has the first types of the columns."""
    wanted = pc.equal(changes["_op"], "insert")
    for column, value in key.items():
        wanted = pc.and_(wanted, pc.equal(changes[column], pa.scalar(value).cast(changes[column].type)))
    found: list[dict[str, Any]] = changes.filter(wanted).to_pylist()
    return min(found, key=lambda row: (row["_seq"], row["_row"]), default={})


def _plain(value: Any) -> Any:
    """A decoded value as the MySQL client returns it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _short(value: Any) -> str:
    text = "NULL" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 48 else text[:47] + "…"
