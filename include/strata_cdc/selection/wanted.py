"""Which tables of a source are wanted: by its settings, and by the request of a run.
Not here: what is pending of them (`pipeline/plan/pending.py`), what a pattern matches (`schema/model/patterns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import SettingsError, Usage
from strata_cdc.landing.place_prepared import UNNAMED
from strata_cdc.schema.history.copies import bases_of
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import can_match, is_selected, matches, meant_by, unmatched
from strata_cdc.store.own import own_database
from strata_cdc.store.table_intervals import TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedStream

_SOME: Final = 100


def wanted_tables(
    source: Source, engine: sa.Engine, stream: LandedStream, patterns: Sequence[str] = ()
) -> Callable[[TableName], bool]:
    """Whether a table is to be decoded: by the settings, and by the patterns of the request; never the store's own
    tables."""
    settings = source.settings
    others = SYSTEM_DATABASES | own_database(engine, stream.servers())
    folded = folds_names(source.name, engine)
    copies = _copies_by_name(source, engine)

    def wanted(table: TableName) -> bool:
        return table == UNNAMED or (
            table not in copies
            and table.database not in others
            and is_selected(table, settings.tables, settings.exclude, folded=folded)
            and (not patterns or matches(table, patterns, folded=folded))
        )

    return wanted


def _copies_by_name(source: Source, engine: sa.Engine) -> frozenset[TableName]:
    """Tables that the settings exclude, because tools for schema changes give such names to their copies of tables."""
    if source.settings.leave_out_copies != "all":
        return frozenset()
    known = frozenset(SchemaStore(engine).tables(source.name))
    spelled = frozenset(source.settings.tables)
    return frozenset(table for table in known if str(table) not in spelled and bases_of(table, known))


def folds_names(source: str, engine: sa.Engine) -> bool:
    """Whether the server ignores the case of table names, as far as the tracker knows."""
    position = SchemaStore(engine).position(source)
    return position is not None and position.lower_case_table_names != 0


def known_tables(source: Source, engine: sa.Engine, stream: LandedStream) -> frozenset[TableName]:
    """All tables of users that the history or the ledger names, whether they exist now or not."""
    others = SYSTEM_DATABASES | own_database(engine, stream.servers())
    counted = (TableName(*name) for name in TableIntervalLedger(engine).names(source.name))
    return frozenset(
        table
        for table in (*SchemaStore(engine).tables(source.name), *counted)
        if table.database and table.database not in others
    )


def _some_tables(source: Source, engine: sa.Engine, stream: LandedStream) -> list[TableName]:
    """A few of the known tables: most patterns match one of them, and there are thousands."""
    others = SYSTEM_DATABASES | own_database(engine, stream.servers())
    tables = SchemaStore(engine).tables(source.name, most=_SOME)
    return [table for table in tables if table.database and table.database not in others]


def unmatched_patterns(
    source: Source, engine: sa.Engine, stream: LandedStream, requested: Sequence[str] = ()
) -> list[str]:
    """Messages about patterns that match nothing: patterns of the settings' `tables`, and patterns of a request whose
    matches are all excluded by the settings.

    Raises:
        Usage: A pattern of the request matches no table: otherwise nothing would be done, without a message.
        SettingsError: There are tables, and no pattern of the settings matches any of them: the same for every run.
    """
    folded = folds_names(source.name, engine)
    if not requested and not _unmet(source, _some_tables(source, engine, stream), folded=folded):
        return []
    known = known_tables(source, engine, stream)
    for pattern in unmatched(requested, known, folded=folded):
        raise Usage(no_match(pattern, known), source=source.name, remedy=NAMES_OF_TABLES)
    wanted = wanted_tables(source, engine, stream)
    excluded = unmatched(requested, [table for table in known if wanted(table)], folded=folded)
    unmet = [f'"{pattern}" matches only tables that the settings exclude' for pattern in excluded]
    return [*unmet, *_refused_settings(source, known, folded=folded)]


def unmatched_settings(source: Source, engine: sa.Engine, stream: LandedStream) -> list[str]:
    """Messages about patterns of the settings' `tables` that match nothing, although there are tables."""
    known = known_tables(source, engine, stream)
    return _unmet(source, known, folded=folds_names(source.name, engine)) if known else []


def _unmet(source: Source, known: Collection[TableName], *, folded: bool) -> list[str]:
    return [no_match(pattern, known) for pattern in unmatched(source.settings.tables, known, folded=folded)]


def _refused_settings(source: Source, known: Collection[TableName], *, folded: bool) -> list[str]:
    unmet = _unmet(source, known, folded=folded)
    if known and len(unmet) == len(source.settings.tables):
        raise SettingsError(
            f"sources.{source.name}.tables: {'; '.join(unmet)}", source=source.name, remedy=NAMES_OF_TABLES
        )
    return unmet if known else []


NAMES_OF_TABLES = "`strata schema show` lists the tables; patterns are database.table, as in shop.*"


def no_match(pattern: str, known: Collection[TableName]) -> str:
    """The message that a pattern matches no table, with the table that may be meant."""
    near = meant_by(pattern, known)
    why = "" if can_match(pattern) else ", because it has no dot"
    return f'"{pattern}" matches no table{why}' + (f": do you mean {near}?" if near else "")
