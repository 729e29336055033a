"""Scripts of SQL on a server, sent to it whole: what `mysql --batch` prints, without a process for each script, which
costs 45 ms of CPU. The server finds where a statement ends, and logs comments that the client would not send.
Not here: scripts for the client itself, with a delimiter or a file to load (`mysql_server.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pymysql
from pymysql.constants import CLIENT
from pymysql.converters import encoders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pymysql.cursors import Cursor

_OF_THE_CLIENT: Final = re.compile(
    r"^\s*(delimiter|source|\\)|\blocal\s+infile\b|\\[gG]\b|;\s*(--|#|/\*)|\A\s*\Z", re.IGNORECASE | re.MULTILINE
)
"""Also a comment behind a statement: for the server it may be a statement with nothing in it, which ends the script."""
_MOST_CHARACTERS: Final = 1_000_000
"""For each statement, a server keeps room for all that comes after it."""


def is_of_the_client(text: str) -> bool:
    """Whether only the `mysql` client can run the script."""
    return len(text) > _MOST_CHARACTERS or _OF_THE_CLIENT.search(text) is not None


def run_script(text: str, **login: object) -> str:
    """Runs a script in a session of its own.

    Raises:
        AssertionError: A statement failed; those before it are done.
    """
    try:
        # Without converters a value is the text that the server sends.
        connection = pymysql.connect(
            **login,
            charset="utf8mb4",
            use_unicode=False,
            conv=encoders,
            client_flag=CLIENT.MULTI_STATEMENTS,
            ssl_disabled=True,
            autocommit=None,
        )
        try:
            with connection.cursor() as cursor:
                return b"".join(_printed(cursor, text)).decode(errors="replace")
        finally:
            connection.close()
    except pymysql.MySQLError as error:
        raise AssertionError(f"ERROR {' '.join(map(str, error.args))}") from error


def _printed(cursor: Cursor, text: str) -> Iterator[bytes]:
    cursor.execute(text)
    more: bool | None = True
    while more:
        if cursor.description and (rows := cursor.fetchall()):
            yield b"\t".join(column[0].encode() for column in cursor.description) + b"\n"
            yield from map(_line, rows)
        more = cursor.nextset()


def _line(row: Sequence[bytes | None]) -> bytes:
    return b"\t".join(b"NULL" if value is None else _escaped(value) for value in row) + b"\n"


def _escaped(value: bytes) -> bytes:
    """As `mysql --batch` has it."""
    return value.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\0", b"\\0")
