"""One pass over one staged file: its bytes are read once, and every rule is judged on its batches.
Not here: rules across files and the verdict (`pass_engine.py`), where it runs (`quality/check_step/run_pass.py`).

It shares nothing with who wrote the file but the file.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.kernels.chains import FOUND, place_in_order
from strata_cdc.changes.arrow import image_fields
from strata_cdc.files.storage import FileBuffer, content_digest
from strata_cdc.quality.checks.arrow_values import numbers_of
from strata_cdc.quality.checks.before_after import (
    GatheredImages,
    ImageBuffers,
    Sampling,
    edges_of,
    firsts_of,
    follow,
    sampled_keys,
)
from strata_cdc.quality.checks.file_bounds import FileBounds
from strata_cdc.quality.checks.names import METADATA
from strata_cdc.quality.checks.profile import (
    EXAMPLES,
    POSITION,
    Example,
    FileFault,
    FileProfile,
    RuleFound,
    example_text,
)
from strata_cdc.quality.checks.row_rules import ROW_JUDGES, RuleRows, judge_rows
from strata_cdc.quality.checks.rules import rules_of_stream
from strata_cdc.quality.checks.sensitive import NOTHING, Sensitive
from strata_cdc.quality.checks.subject import are_columns_of, key_columns, rules_of_version
from strata_cdc.quality.checks.text_pages import texts_of_group
from strata_cdc.schema.model.definition import definition_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from strata_cdc.changes.row_hashes import Ints
    from strata_cdc.quality.checks.before_after import ChainFindings, Edges, Firsts, ImageEvents
    from strata_cdc.quality.checks.rules import Exemptions, ImageChain, Rule, StreamFacts
    from strata_cdc.quality.checks.subject import JudgedFile
    from strata_cdc.schema.model.definition import TableDefinition

    _Texts = Mapping[str, pa.ChunkedArray]

ORDER = "rows_are_in_stream_order"
_UNREAD = ("_gtid", "_source")
"""No rule is about them; to decode the GTIDs alone takes a fifth of the time."""

_REPEATED = ["_op", "_binlog_file"]
"""Texts of which a file has few: judged once each."""


class FileTask(Struct, frozen=True):
    """A staged file with all that its pass needs to know."""

    file: JudgedFile
    facts: StreamFacts
    exempt: Exemptions
    """Of all rows of its table, interval and version."""
    definition: str | None
    """As JSON; None if the plan has no such version."""
    goes_on: bool
    """Whether the rows of its version continue in other files."""
    sensitive: Sensitive = NOTHING
    sampling: Sampling | None = None
    """Which of its keys are compared with what was published earlier; None for none."""

    @property
    def group(self) -> str:
        """What it shares with the files of the same table, interval and version."""
        return f"{self.file.url.rpartition('/')[0]}#{self.file.version_id}"


class FileResult(NamedTuple):
    """What comes back of a file."""

    profile: FileProfile
    edges: Edges | None
    """Of a file whose images continue in others."""
    firsts: Firsts | None = None
    """What is to be compared with what was published earlier."""


class UnorderedRows(NamedTuple):
    """All that rules across files may need: of files in which rows are not where they should be."""

    seq: Ints
    row: Ints
    events: ImageEvents
    """None of them where nothing must hold of images."""


class PassBuffers:
    """What one file after the other may be read into, and its images put into; of one thread."""

    def __init__(self) -> None:
        self.file = FileBuffer()
        self.images = ImageBuffers()


def pass_over(task: FileTask, buffers: PassBuffers | None = None) -> FileResult:
    """Judges one file.

    Args:
        buffers: What it is read into; nothing of what comes back lies in them.
    """
    buffers = buffers or PassBuffers()
    opened = _open(task.file, buffers.file)
    if isinstance(opened, FileProfile):
        return FileResult(opened, None)
    return _FilePass(task, opened, buffers.images).run()


def read_whole(task: FileTask) -> UnorderedRows:
    """The stream position of each row, and the images of its keys."""
    opened = _open(task.file)
    if isinstance(opened, FileProfile):
        raise TypeError(f"{task.file.url} {opened.damage}")  # it was read before
    reading = _FilePass(task, opened)
    reading.take_places()
    seq, row = reading.places()
    return UnorderedRows(seq, row, reading.events())


def quote_rows(
    file: JudgedFile, rows: Sequence[tuple[int, int]], chain: ImageChain, sensitive: Sensitive
) -> tuple[Example, ...]:
    """Some images of a file, given by row and side, by their position and key."""
    opened = _open(file)
    return () if isinstance(opened, FileProfile) else _quoted(opened.parquet, rows, chain, sensitive)


class _OpenedParquet(NamedTuple):
    content: memoryview
    parquet: pq.ParquetFile
    """Over the same memory."""


def _open(file: JudgedFile, buffer: FileBuffer | None = None) -> _OpenedParquet | FileProfile:
    """The file, whose bytes are those that were decoded; or what is wrong with it."""
    content = (buffer or FileBuffer()).read_file(file.url)
    if content is None:
        return FileProfile(file.url, damage="is gone")
    if len(content) != file.size_bytes:
        return FileProfile(file.url, damage=f"has {len(content):,} bytes, {file.size_bytes:,} were written")
    if content_digest(content) != file.digest:
        return FileProfile(file.url, damage="has other bytes than those that were written")
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content), read_dictionary=_REPEATED)
        names = parquet.schema_arrow.names
    except (pa.ArrowInvalid, OSError) as error:
        return FileProfile(file.url, damage=f"is no Parquet file: {error}")
    if tuple(names[-len(METADATA) :]) != METADATA:
        return FileProfile(file.url, damage=f"has the columns {', '.join(names)}, which are no changes")
    return _OpenedParquet(content, parquet)


@lru_cache(maxsize=4096)
def _definition(text: str) -> TableDefinition:
    return definition_from_json(text)


def _fits(schema: pa.Schema, definition: TableDefinition) -> bool:
    """Whether a file has the columns of a version, by name and type."""
    if not are_columns_of(definition, schema.names):
        return False
    images = [field.type for field in image_fields(definition)]
    before = schema.field("_before").type
    return [field.type for field in schema][: len(images)] == images == [field.type for field in before]


class _FilePass:
    """The state of one pass."""

    def __init__(self, task: FileTask, opened: _OpenedParquet, buffers: ImageBuffers | None = None) -> None:
        self._task = task
        self._content, parquet = opened
        self._parquet = parquet
        self._columns = tuple(parquet.schema_arrow.names)
        definition = None if task.definition is None else _definition(task.definition)
        self._is_unlike = definition is None or not _fits(parquet.schema_arrow, definition)
        rules: list[Rule] = list(rules_of_stream(task.facts))
        if definition is not None and not self._is_unlike:
            rules += rules_of_version(definition, task.file.version_id, task.exempt, self._columns)
        self._rules = rules
        self._chain = next((rule.chain for rule in rules if rule.chain is not None), None)
        self._keys = () if definition is None or self._is_unlike else key_columns(definition, self._columns)
        self._found = [RuleFound(0) for _ in self._rules]
        self._bounds = FileBounds()
        self._seqs: list[Ints] = []
        self._rows: list[Ints] = []
        self._buffers = buffers or ImageBuffers()
        self._images = GatheredImages(0 if self._chain is None else _rows_in(parquet), self._buffers)
        self._count = 0
        self._gtids: tuple[int, pa.ChunkedArray] | None = None
        """Of the row group that was requested last."""

    def run(self) -> FileResult:
        """Reads the file and judges it."""
        try:
            for group, begin, batch, texts in self._batches():
                self._bounds.add(batch, self._parquet.metadata.row_group(group))
                self._judge(RuleRows(batch, partial(self._gtid, group, begin), self._keys, self._task.sensitive, texts))
                del batch, texts  # or they stay in memory while the next ones are read
        except (pa.ArrowInvalid, OSError) as error:
            return FileResult(FileProfile(self._task.file.url, damage=f"is no Parquet file: {error}"), None)
        seq, row = self.places()
        order_fault = _unordered(seq, row)
        is_ordered = order_fault is None
        events = self.events()
        # Of rows in no order nothing follows.
        followed = follow(events, self._buffers) if is_ordered and self._chain is not None else None
        faults = (order_fault, self._bounds.fault(self._task.file.statistics))
        profile = FileProfile(
            url=self._task.file.url,
            rows=self._count,
            columns=self._columns,
            is_unlike=self._is_unlike,
            found=tuple(self._found),
            first=(int(seq[0]), int(row[0])) if len(seq) else None,
            last=(int(seq[-1]), int(row[-1])) if len(seq) else None,
            is_ordered=is_ordered,
            chain=None if followed is None else self._within(events, followed),
            faults=tuple(fault for fault in faults if fault is not None),
        )
        if followed is None:
            return FileResult(profile, None)
        none = np.zeros(0, np.int64)
        requested = none if self._task.sampling is None else sampled_keys(events, followed, self._task.sampling)
        edges = edges_of(events, followed, requested) if self._task.goes_on else None
        return FileResult(profile, edges, firsts_of(events, followed, requested, seq, row) if len(requested) else None)

    def take_places(self) -> None:
        """Reads the file without judging it."""
        for _, _, batch, texts in self._batches():
            self._take(RuleRows(batch, texts=texts))

    def places(self) -> tuple[Ints, Ints]:
        """`_seq` and `_row` of all rows."""
        none = np.zeros(0, np.int64)
        return np.concatenate((none, *self._seqs)), np.concatenate((none, *self._rows))

    def events(self) -> ImageEvents:
        """The images of all rows, if something must hold of them."""
        return self._images.events()

    def _batches(self) -> Iterator[tuple[int, int, pa.RecordBatch, _Texts]]:
        """Batches with their row group, the rows of that before them, and the texts with them; kept in memory no longer
        than the caller holds them."""
        for group in range(self._parquet.num_row_groups):
            yield from self._batches_of(group)

    def _batches_of(self, group: int) -> Iterator[tuple[int, int, pa.RecordBatch, _Texts]]:
        texts = texts_of_group(self._content, self._parquet, group, set(self._columns).difference(METADATA))
        wanted = [name for name in self._columns if name not in _UNREAD and name not in texts]
        begin = 0
        table = self._parquet.read_row_group(group, columns=wanted, use_threads=False)
        for batch in table.combine_chunks().to_batches():
            yield group, begin, batch, {name: column.slice(begin, len(batch)) for name, column in texts.items()}
            begin += batch.num_rows

    def _gtid(self, group: int, begin: int, at: int) -> str | None:
        if self._gtids is None or self._gtids[0] != group:
            self._gtids = group, self._parquet.read_row_group(group, columns=["_gtid"], use_threads=False)["_gtid"]
        gtid: str | None = self._gtids[1][begin + at].as_py()
        return gtid

    def _judge(self, rows: RuleRows) -> None:
        for number, rule in enumerate(self._rules):
            if rule.expectation in ROW_JUDGES:
                self._found[number] = merged([self._found[number], judge_rows(rows, rule)])
        self._take(rows)

    def _take(self, rows: RuleRows) -> None:
        self._seqs.append(numbers_of(rows.column("_seq")))
        self._rows.append(numbers_of(rows.column("_row")))
        if self._chain is not None:
            self._images.add(rows, self._chain)
        self._count += rows.batch.num_rows

    def _within(self, events: ImageEvents, followed: ChainFindings) -> RuleFound | None:
        if self._chain is None:
            return None
        breaks = followed.broken
        first = breaks[:EXAMPLES]
        rows = list(zip(events.at[first].tolist(), events.side[first].tolist(), strict=True))
        examples = _quoted(self._parquet, rows, self._chain, self._task.sensitive)
        return RuleFound(self._count, len(breaks), examples)


def _rows_in(parquet: pq.ParquetFile) -> int:
    """As many as Arrow will give."""
    return sum(parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups))


def _unordered(seq: Ints, row: Ints) -> FileFault | None:
    count, at = place_in_order(seq, row)
    if not count:
        return None
    message = f"row {row[at]} of transaction {seq[at]} comes after row {row[at - 1]} of transaction {seq[at - 1]}"
    return FileFault(ORDER, f"the rows of a staged file are not in the order of the stream: {message}", count)


def _quoted(
    parquet: pq.ParquetFile, rows: Sequence[tuple[int, int]], chain: ImageChain, sensitive: Sensitive
) -> tuple[Example, ...]:
    if not rows:
        return ()
    table = parquet.read(columns=[*POSITION, *chain.keys, "_before", "_invalid"], use_threads=False)
    examples = []
    for at, side in rows:
        position = {name: table[name][at].as_py() for name in POSITION}
        image = (
            table["_before"][at].as_py() if side == FOUND else {name: table[name][at].as_py() for name in chain.keys}
        )
        texts = dict(table["_invalid"][at].as_py() or ())
        prefix = "_before." if side == FOUND else ""
        noted = {name: texts.get(f"{prefix}{chain.invalid.get(name)}") for name in chain.keys}
        key = sensitive.shown({name: noted[name] or (image or {}).get(name) for name in chain.keys})
        examples.append(Example(position["_seq"] or 0, position["_row"] or 0, example_text({**position, **key})))
    return tuple(examples)


def merged(parts: Iterable[RuleFound]) -> RuleFound:
    """What a rule met in several parts of the rows."""
    rule = RuleFound(0)
    for part in parts:
        examples = rule.examples + part.examples
        if rule.examples and part.examples:
            examples = tuple(sorted(examples)[:EXAMPLES])
        rule = replace(
            rule, rows=rule.rows + part.rows, unexpected=rule.unexpected + part.unexpected, examples=examples
        )
    return rule
