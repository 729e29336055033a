"""Plays the shop's life chapter by chapter, and remembers what its first rows looked like.
Not here: the chapters themselves (`life/*.sql`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

CHAPTERS = Path(__file__).with_name("life")

EARLY_ROWS = {
    "customers": "SELECT * FROM customers WHERE id IN (1, 22, 30) ORDER BY id",
    "orders": "SELECT * FROM orders WHERE id IN (4, 5) ORDER BY id",
    "order_lines": "SELECT * FROM order_lines WHERE order_id = 7 ORDER BY line_no",
    "payments": "SELECT * FROM payments WHERE id IN (1, 2) ORDER BY id",
}
"""The rows that are remembered after the first chapter, before any DDL."""
EARLY_KEYS = {"customers": ["id"], "orders": ["id"], "order_lines": ["order_id", "line_no"], "payments": ["id"]}


@dataclass(frozen=True, slots=True)
class Chapter:
    """One file of the life."""

    title: str
    statements: tuple[str, ...]


def chapters() -> list[Chapter]:
    """The life, in order. A statement ends with a semicolon at a line's end."""
    return [_read(path) for path in sorted(CHAPTERS.glob("*.sql"))]


def _read(path: Path) -> Chapter:
    lines = path.read_text(encoding="utf-8").splitlines()
    title = lines[0].removeprefix("-- ")
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return Chapter(title, tuple(part.strip() for part in text.split(";\n") if part.strip(" ;\n")))


def play(chapter: Chapter, connection: pymysql.Connection) -> Iterator[int]:
    """Runs a chapter; yields, after each statement, how many rows it changed.

    The time zone is set so that the same rows come out wherever the server stands.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for statement in chapter.statements:
            changed = cursor.execute(statement.removesuffix(";"))
            yield 0 if _is_ddl(statement) else changed


def _is_ddl(statement: str) -> bool:
    return statement.split(maxsplit=1)[0] in {"CREATE", "ALTER", "DROP", "RENAME", "SET"}


def remember(connection: pymysql.Connection) -> dict[str, list[dict[str, Any]]]:
    """The early rows as the server shows them now: table -> rows as column -> value."""
    remembered = {}
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for table, query in EARLY_ROWS.items():
            cursor.execute(query)
            names = [column[0] for column in cursor.description]
            remembered[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return remembered
