"""Names of files in a sink's folder, by their shape.
Not here: which of them are read (`folder.py`), what is in them (`schema_files.py`, `csv_rows.py`, `canal_rows.py`).

The settings that decide the layout (width of numbers, date and partition levels, table ids instead of names) are
written nowhere in the folder.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA: Final = "metadata"
META: Final = "meta"
_DATA: Final = re.compile(r"CDC(?:_(?P<dispatcher>.+)_)?(?P<number>\d{6,})\.(?P<form>csv|json)", re.ASCII)
_INDEX: Final = re.compile(r"CDC(?:_(?P<dispatcher>.+))?\.index", re.ASCII)
_SCHEMA: Final = re.compile(r"schema_(?P<version>\d+)_(?P<checksum>\d{10})\.json", re.ASCII)
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_LEVEL: Final = re.compile(r"\d+|\d{4}-\d{2}(-\d{2})?", re.ASCII)


class FileForm(StrEnum):
    """The forms of data files that are read."""

    CSV = "csv"
    CANAL_JSON = "json"


class SchemaPath(Struct, frozen=True):
    """`[DATABASE/]TABLE/meta/schema_VERSION_CHECKSUM.json`; of a database, or of a table id, with a single folder."""

    path: str
    folder: str
    """The folder of the table, or of the database."""
    version: int
    checksum: int

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """The path, or None if it has another shape."""
        *folders, meta, name = ["", "", *path.split("/")][-5:]
        match = _SCHEMA.fullmatch(name)
        if match is None or meta != META or path.count("/") not in {2, 3}:
            return None
        return cls(path, "/".join(filter(None, folders)), int(match["version"]), int(match["checksum"]))


class DataName(Struct, frozen=True):
    """`CDC000001.csv`, or `CDC_DISPATCHER_000001.csv` of a table that several nodes write."""

    name: str
    dispatcher: str
    """Empty if there is none."""
    number: int
    form: FileForm

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The name, or None if it has another shape."""
        match = _DATA.fullmatch(name)
        return match and cls(name, match["dispatcher"] or "", int(match["number"]), FileForm(match["form"]))

    def numbered(self, number: int) -> Self:
        """The name of an earlier file of the same directory and dispatcher."""
        before = f"CDC_{self.dispatcher}_" if self.dispatcher else "CDC"
        width = len(self.name) - len(before) - len(f".{self.form}")
        return type(self)(f"{before}{number:0{width}}.{self.form}", self.dispatcher, number, self.form)


class IndexPath(Struct, frozen=True):
    """`DIRECTORY/meta/CDC.index`, or `CDC_DISPATCHER.index`: it names the newest complete file of the directory."""

    directory: str
    dispatcher: str

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """The path, or None if it has another shape."""
        directory, _, rest = path.rpartition(f"/{META}/")
        match = _INDEX.fullmatch(rest)
        return cls(directory, match["dispatcher"] or "") if match and directory else None


class VersionFolder(Struct, frozen=True):
    """What the path of a directory of data files may mean: the folder of a table, and the version of its schema."""

    table: str
    version: int


def meanings(directory: str) -> Iterator[VersionFolder]:
    """What `DATABASE/TABLE/VERSION[/PARTITION][/DATE]` or `TABLE_ID/VERSION[/DATE]` may mean; the schema files decide.

    `7/8/2024` is version 8 of table id 7 in the year 2024, or version 2024 of table 8 in database 7. Whether a number
    after the version is a partition or a year makes no difference.
    """
    parts = directory.split("/")
    for names, most_levels in ((2, 2), (1, 1)):
        levels = parts[names + 1 :]
        is_long = len(parts) > names and len(levels) <= most_levels
        if is_long and _NUMBER.fullmatch(parts[names]) and all(map(_LEVEL.fullmatch, levels)):
            yield VersionFolder("/".join(parts[:names]), int(parts[names]))
