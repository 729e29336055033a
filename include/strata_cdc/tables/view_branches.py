"""The columns of a view, and where each version of its table has their values.
Not here: single columns (`column_sources.py`), where keys may become equal (`key_stages.py`), SQL
(`dialects/views.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.dialects.view_source import Branch, ColumnSource, RowEnd, ViewColumn
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.column_sources import converted_source_of, kinds_of, source_of, view_column, view_columns
from strata_cdc.tables.current_rows import ENDS_OF_CURRENT, column_of_end
from strata_cdc.tables.key_stages import KeyOf, KeyStages, StageColumn, key_of_row, key_stages, stage_column
from strata_cdc.tables.lifetimes import Value, keeps_shown, shows_some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.tables.lifetimes import TableLifetime, VersionSpan

    FindSource = Callable[[Value, ViewColumn, Sequence[pa.Field], Mapping[str, pa.DataType]], ColumnSource]


class ViewLayout(Struct, frozen=True):
    """The columns of a view over the versions of a table."""

    lifetime: TableLifetime
    shown: tuple[ViewColumn, ...]
    """The columns of the view."""
    find_source: FindSource
    """Where rows of a version have the value of a column of `shown`; the arguments of `source_of`."""
    stages: KeyStages
    in_stages: tuple[tuple[ViewColumn, StageColumn], ...] = ()
    """Columns as they are in one stage."""
    key_of: KeyOf = lambda _: ()

    @property
    def columns(self) -> tuple[ViewColumn, ...]:
        """The columns of the view, then those of stages."""
        return (*self.shown, *(column for column, _ in self.in_stages))

    def column_sources(self, at: int, there: Sequence[pa.Field]) -> tuple[ColumnSource, ...]:
        """Where rows of one version have the values of all `columns`.

        Args:
            at: Index of the version in the table's lifetime.
            there: Columns of the table in the lake.
        """
        span = self.lifetime.spans[at]
        kinds, key = kinds_of(span.definition), self.key_of(span.definition)
        column_sources = [
            self.find_source(value, column, there, kinds) for value, column in zip(span.values, self.shown, strict=True)
        ]
        for column, then in self.in_stages:
            is_over = at >= len(then.origins)
            column_sources.append(
                ColumnSource() if is_over else converted_source_of(then.origins[at], column, there, kinds)
            )
        is_one_row = span.definition.sequence
        return tuple(
            replace(column_source, in_key=not is_one_row and _is_in_key(column_source, key))
            for column_source in column_sources
        )

    def _end(self, at: int, there: Sequence[pa.Field]) -> RowEnd | None:
        """Where rows of one version have the end of their time, if the table is system-versioned then."""
        definition = self.lifetime.spans[at].definition
        column = column_of_end(definition)
        if column is None:
            return None
        column_source = source_of(Value(column), view_column(column, is_key=False), there, kinds_of(definition))
        return RowEnd(column_source.physical, ENDS_OF_CURRENT)

    def branches(self, fields: Mapping[TableName, Sequence[pa.Field]]) -> tuple[Branch, ...]:
        """The branches of the view; versions whose values are in the same columns are one branch.

        Args:
            fields: The columns of each change table that exists.
        """
        versions_by_form: dict[tuple[str, int, tuple[ColumnSource, ...], RowEnd | None], list[int]] = {}
        for at, (span, stage) in enumerate(zip(self.lifetime.spans, self.stages.of_spans, strict=True)):
            if span.name in fields:
                there = fields[span.name]
                alike = str(span.name), stage, self.column_sources(at, there), self._end(at, there)
                versions_by_form.setdefault(alike, []).append(span.version_id)
        return tuple(
            Branch(name, tuple(versions), column_sources, stage, end)
            for (name, stage, column_sources, end), versions in versions_by_form.items()
        )


def changes_layout(lifetime: TableLifetime, columns: Sequence[ViewColumn]) -> ViewLayout:
    """The layout of a view of changes, with the values that rows had then."""
    return ViewLayout(lifetime, tuple(columns), source_of, KeyStages((0,) * len(lifetime.spans)))


def rows_layout(lifetime: TableLifetime, key_of: KeyOf) -> ViewLayout:
    """The layout of a view of present rows, with the values that conversions have left.

    Args:
        key_of: Gives the columns of a version's key, by folded name.
    """
    return _layout(lifetime, key_of, key_stages(lifetime.spans, key_of))


def history_layout(lifetime: TableLifetime, key_of: KeyOf) -> ViewLayout:
    """The layout of a history, with the values that rows had then: a stage also ends where an ALTER may have changed
    what is shown of them.

    Args:
        key_of: Gives the columns of a version's key, by folded name.
    """
    layout = _layout(lifetime, key_of, key_stages(lifetime.spans, key_of, _shows_other))
    then = [in_stage for at in range(len(layout.shown)) for in_stage in _shown_in_stages(lifetime, layout.stages, at)]
    return replace(layout, in_stages=(*layout.in_stages, *then))


def _layout(lifetime: TableLifetime, key_of: KeyOf, stages: KeyStages) -> ViewLayout:
    last = stages.of_spans[-1]
    key = [column.name for column in key_of_row(lifetime.definition, key_of)]
    shown = [replace(column, stage=last) for column in view_columns(lifetime.definition, key)]
    # The columns of the last stage's key are those that are shown.
    return ViewLayout(lifetime, tuple(shown), _converted, stages, _of_keys(stages, before=last), key_of)


def _shown_in_stages(lifetime: TableLifetime, stages: KeyStages, at: int) -> Iterable[tuple[ViewColumn, StageColumn]]:
    """A column of the view as it was in each stage after which an ALTER may have changed its values."""
    for stage in range(stages.of_spans[-1]):
        last = stages.last_of(stage)
        value, column = lifetime.spans[last].values[at], lifetime.spans[last].values[at].origin.column
        if column is not None and not _keeps_shown(lifetime.spans[last], lifetime.spans[last + 1], at):
            then = replace(
                view_column(column, is_key=False),
                stage=stage,
                is_shown=False,
                of=at,
                unlike=value.unknown,
                is_castable=shows_some(column, lifetime.definition.columns[at]),
            )
            yield then, stage_column(lifetime.spans[: last + 1], stage, column)


def _shows_other(span: VersionSpan, following: VersionSpan) -> bool:
    return not all(_keeps_shown(span, following, at) for at in range(len(span.values)))


def _keeps_shown(span: VersionSpan, following: VersionSpan, at: int) -> bool:
    """Whether a statement left what is shown of a column as it was."""
    before, after = span.values[at].origin.column, following.values[at].origin.column
    return before is None or after is None or keeps_shown(before, after, following.effect)


def _converted(
    value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    return converted_source_of(value.origin, column, there, kinds)


def _of_keys(stages: KeyStages, before: int) -> tuple[tuple[ViewColumn, StageColumn], ...]:
    """The columns that tell rows apart in the stages before a stage."""
    return tuple(
        (replace(view_column(then.column, is_key=True), stage=then.stage, is_shown=False), then)
        for then in stages.keys
        if then.stage < before
    )


def _is_in_key(column_source: ColumnSource, key: Sequence[str]) -> bool:
    return bool(column_source.missing) and (not key or fold_name(column_source.missing) in key)
