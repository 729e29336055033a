"""`strata decode FOLDER`: the rows of a TiCDC storage sink.
Not here: the command itself and its output (`decode.py`), reading the folder (`ticdc/`)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.cli.terminal import say
from strata_cdc.counted import counted
from strata_cdc.errors import Crossing, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.ticdc.folder import SinkContents
    from strata_cdc.ticdc.windows import ReadCounts

_OF_BINLOGS = ("source", "store", "baseline", "lower_case_table_names", "physical", "skip_corrupt")
"""Options that have no meaning for a sink."""
_OF_SINKS = ("null", "binary_encoding", "time_zone")


class BinaryEncoding(StrEnum):
    """How a sink's CSV writes bytes."""

    BASE64 = "base64"
    HEX = "hex"


class SinkOptions(Struct, frozen=True):
    """What the user knows of a sink, and no file shows."""

    null: str | None
    binary_encoding: BinaryEncoding | None
    time_zone: str | None


def is_sink(words: list[str]) -> bool:
    """Whether the argument is a folder: no binlog is one.

    Raises:
        LakeUnavailableError: The storage of a URL does not answer.
    """
    if len(words) != 1:
        return False
    word = words[0]
    if "://" in word:
        from strata_cdc.files.storage import read_file

        return word.endswith("/") or read_file(f"{word}/metadata") is not None
    return Path(word).is_dir()


def check_options(given: Mapping[str, object], *, of_sink: bool) -> None:
    """Refuses the options of the other kind of source.

    Raises:
        Usage: One of them is given.
    """
    wrong = next((name for name in (_OF_BINLOGS if of_sink else _OF_SINKS) if given.get(name)), None)
    if wrong is not None:
        what, other = ("binlogs", "a TiCDC folder") if of_sink else ("a TiCDC folder", "binlogs")
        raise Usage(f"--{wrong.replace('_', '-')} is for {what}, not for {other}", remedy="Leave the option out.")


def decode_sink(folder: str, wanted: Callable[[TableName], bool], options: SinkOptions) -> Iterator[DecodedItem]:
    """The rows of a folder up to its checkpoint, in the order of their commits; then says what was special.

    Raises:
        Usage: The folder is no sink, or an option is missing.
        BadData: A file cannot be read; after everything before it.
        LakeUnavailableError: The storage does not answer.
    """
    from strata_cdc.changes.port import Hole
    from strata_cdc.ticdc.csv_form import CsvSettings
    from strata_cdc.ticdc.encodings import BinaryForm
    from strata_cdc.ticdc.folder import read_contents
    from strata_cdc.ticdc.history import SinkHistory
    from strata_cdc.ticdc.windows import SinkWindows

    contents = read_contents(folder)
    yield from map(Hole, contents.holes)
    defaults = CsvSettings()
    settings = CsvSettings(
        defaults.null if options.null is None else options.null,
        BinaryForm(options.binary_encoding.value) if options.binary_encoding else defaults.binary,
        options.time_zone,
    )
    reader = SinkWindows(contents, SinkHistory.from_files(contents.schema_files, wanted), settings)
    for window in reader.windows():
        yield from window.decoded()
    for line in _remarks(contents, reader.counts):
        say(f"strata: {line}", err=True)


def _remarks(contents: SinkContents, counts: ReadCounts) -> Iterator[str]:
    """What is not in the rows themselves."""
    from strata_cdc.schema.model.quadrants import crossed_line

    yield f"all commits below {contents.checkpoint_ts} were read, the checkpoint of the changefeed"
    if contents.unindexed:
        yield f"{counted(contents.unindexed, 'data file')} not read: no index names them yet"
    for table, rows in counts.repeats.most_common():
        yield f"{table}: {counted(rows, 'row')} came again, and were skipped"
    for key, (row, made_at) in sorted(counts.quadrants.first.items()):
        table, kind, quadrant = key
        yield f"{table}: {crossed_line(counts.quadrants.rows[key], Crossing(kind, quadrant, made_at), row)}"
    for (table, column), values in sorted(counts.quadrants.dropped.items()):
        if values:
            yield f"{table}: {counted(values, 'value')} of column {column} dropped, which the valid schema lacks"
