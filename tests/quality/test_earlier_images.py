"""Images across intervals: what the first change of a row found is what an earlier interval left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.changes.arrow import image_fields
from strata_cdc.quality.check_step.compare_earlier import EarlierComparison, sampling_of
from strata_cdc.quality.checks import earlier_images as reasons
from strata_cdc.quality.checks.one_pass import pass_over
from strata_cdc.quality.checks.pass_engine import PassEngine, task_of
from strata_cdc.quality.checks.pass_results import PassResults
from strata_cdc.quality.checks.rules import StreamFacts
from strata_cdc.quality.checks.run import judge_table
from strata_cdc.quality.checks.subject import JudgedFile, TableSubject
from strata_cdc.runs.run_folder import DecodedRun
from strata_cdc.runs.run_past import EarlierTable, RunPast
from strata_cdc.runs.run_plan import RunPlan
from strata_cdc.runs.specs import Interval, PlannedTable
from strata_cdc.schema.model.lifetimes import ColumnLifetime, ColumnLifetimes, ColumnStep
from strata_cdc.tables.commit import publish
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, definition, stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.quality.checks.earlier_images import ComparedImages
    from strata_cdc.schema.model.definition import TableDefinition

SHAPE = definition({"id": "int NOT NULL", "n": "int", "text": "varchar(9)"})
OLD = INTERVAL
NOW = INTERVAL + 5 * FIVE_MINUTES


def image(key: Any, n: int | None = 0, text: str | None = "x") -> dict[str, Any]:
    return {"id": key, "n": n, "text": text}


def insert(seq: int, after: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"op": "insert", "seq": seq, "after": after, **more}


def update(seq: int, before: dict[str, Any], after: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"op": "update", "seq": seq, "before": before, "after": after, **more}


def delete(seq: int, before: dict[str, Any]) -> dict[str, Any]:
    return {"op": "delete", "seq": seq, "before": before}


class World:
    """A lake, and one table's rows in it."""

    def __init__(self, folder: Path, definitions: Mapping[int, TableDefinition] | None = None) -> None:
        self.lake = str(folder / "lake")
        self.folder = folder
        self.definitions = dict(definitions or {1: SHAPE})
        self.numbers = 0

    def staged(self, rows: list[dict[str, Any]], version: int, interval: int) -> Any:
        fields = {field.name: field.type for field in image_fields(self.definitions[version])}
        self.numbers += 1
        batch = changes(fields, rows, version_id=version)
        return stage(self.folder / "staged", batch, interval=interval, slice_key=f"slice {self.numbers}")

    def publish(self, rows: list[dict[str, Any]], interval: int = OLD, version: int = 1) -> None:
        publish(self.lake, SOURCE, ORDERS, interval, self.staged(rows, version, interval))

    def subject(self, *parts: tuple[int, list[dict[str, Any]]], interval: int = NOW) -> TableSubject:
        files = tuple(
            JudgedFile(one.url, one.digest, version, one.rows, one.partial_rows, one.invalid_rows, one.size_bytes,
                       one.stats)
            for version, rows in parts
            for one in self.staged(rows, version, interval)
        )  # fmt: skip
        facts = StreamFacts(sum(len(rows) for _, rows in parts), 1, 99, tuple(self.definitions))
        return TableSubject(ORDERS, files, facts, self.definitions)

    def compare(
        self,
        subject: TableSubject,
        past: EarlierTable | None = None,
        keys: int | None = None,
        most: int = 32,
        **earlier: TableSubject,
    ) -> ComparedImages | None:
        """What comes of a table now; `earlier` are intervals of the same run, by their number behind the first."""
        subjects = {INTERVAL + int(name[1:]) * FIVE_MINUTES: one for name, one in earlier.items()} | {NOW: subject}
        plan = RunPlan(
            SOURCE,
            "r",
            self.lake,
            tuple(Interval(start, start + FIVE_MINUTES, 0, 99, "") for start in subjects),
            tuple(PlannedTable(start, "shop", "orders", 1, 1) for start in subjects),
        )
        past = past or EarlierTable("shop", "orders")
        work = EarlierComparison(
            self.lake,
            plan,
            DecodedRun(()),
            RunPast((past,)),
            {start: [one] for start, one in subjects.items()},
            limits=reasons.SearchLimits(files=most),
        )
        tasks = [task_of(one, file, sampling_of(keys, start)) for start, one in subjects.items() for file in one.files]
        passed = PassResults.from_files((task, pass_over(task)) for task in tasks)
        return work.compare(passed.firsts(), passed.profiles(), keys).get((NOW, str(ORDERS)))

    def says(self, *rows: dict[str, Any], past: EarlierTable | None = None, **more: Any) -> Any:
        """Images that were compared, those that are not what was left, and why others were not."""
        return numbers(self.compare(self.subject((1, list(rows))), past, **more))


def numbers(found: ComparedImages | None) -> tuple[int, int, dict[str, int]]:
    assert found is not None
    return found.rows, len(found.broken), dict(found.not_compared)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_was_left_is_found(world: World) -> None:
    world.publish([insert(key, image(key)) for key in range(1, 9)])
    world.publish([update(11, image(1), image(1, 1)), delete(12, image(2))], OLD + FIVE_MINUTES)
    same = [update(21, image(1, 1), image(1, 2)), delete(22, image(3))]
    assert world.says(*same) == (2, 0, {})
    wrong = [update(21, image(1), image(1, 2)), delete(22, image(3, None)), update(23, image(2), image(2, 5))]
    assert world.says(*wrong, insert(24, image(4)), update(25, image(99), image(99))) == (3, 3, {reasons.OLDER: 1})


def test_the_verdict_says_so(world: World) -> None:
    world.publish([insert(1, image(1)), insert(2, image(2))])
    subject = world.subject((1, [update(21, image(1, 7), image(1, 2)), delete(22, image(2)), delete(23, image(3))]))
    found = world.compare(subject)
    tasks = [task_of(subject, file) for file in subject.files]
    passed = PassResults.from_files((task, pass_over(task)) for task in tasks)
    (failure,) = judge_table(PassEngine(passed, lambda *_: []), "now", subject, found).failures
    assert (failure.check, str(failure.severity), failure.unexpected_rows) == (reasons.CHECK, "warning", 1)
    assert failure.message == (
        "what the first change of a row found is what an earlier interval left; 1 row does not comply "
        f"of 2 compared (1 not compared: {reasons.OLDER})"
    )
    (example,) = failure.examples
    assert {"_seq": 21, "_row": 0, "id": 1}.items() <= json.loads(example).items()


def test_keys_that_changed(world: World) -> None:
    world.publish([insert(1, image(1)), insert(2, image(2)), update(3, image(1), image(7, 1))])
    assert world.says(update(21, image(7, 1), image(7, 2))) == (1, 0, {})
    assert world.says(update(21, image(1), image(1, 2))) == (1, 1, {})
    assert world.says(update(21, image(7, 1), image(8)), update(22, image(2), image(7))) == (2, 0, {})


def test_later_intervals_and_this_one_are_not_used(world: World) -> None:
    world.publish([insert(1, image(1))])
    world.publish([update(21, image(1), image(1, 1))], NOW)
    world.publish([update(31, image(1, 1), image(1, 2))], NOW + FIVE_MINUTES)
    assert world.says(update(21, image(1), image(1, 1))) == (1, 0, {})
    assert world.says(update(21, image(1, 2), image(1, 1))) == (1, 1, {})


def test_intervals_of_the_run_stand_for_what_they_replace(world: World) -> None:
    world.publish([insert(1, image(1)), insert(2, image(2))])
    world.publish([update(11, image(1), image(1, 9))], OLD + FIVE_MINUTES)
    again = world.subject((1, [update(11, image(1), image(1, 1))]), interval=OLD + FIVE_MINUTES)
    rows = [update(21, image(1, 1), image(1, 2)), delete(22, image(2))]
    assert world.says(*rows, _1=again) == (2, 0, {})
    assert world.says(*rows) == (2, 1, {})


def test_nothing_is_concluded_behind_what_is_not_published(world: World) -> None:
    world.publish([insert(1, image(1)), insert(2, image(2))])
    world.publish([update(11, image(2), image(2, 1))], OLD + 2 * FIVE_MINUTES)
    past = EarlierTable("shop", "orders", unpublished=(OLD + FIVE_MINUTES, NOW + FIVE_MINUTES))
    rows = [update(21, image(1, 5), image(1, 1)), update(22, image(2, 1), image(2, 2))]
    assert world.says(*rows, past=past) == (1, 0, {reasons.UNPUBLISHED: 1})
    assert world.says(*rows, past=EarlierTable("d", "other")) == (0, 0, {reasons.UNPLANNED: 2})


def test_rows_that_changed_without_events_are_not_compared(world: World) -> None:
    world.publish([insert(1, image(1)), insert(5, image(2))])
    past = EarlierTable("shop", "orders", unlogged=(3,))
    rows = [update(21, image(1, 5), image(1, 1)), update(22, image(2), image(2, 2))]
    assert world.says(*rows, past=past) == (1, 0, {reasons.UNLOGGED: 1})


def test_partial_images_are_not_compared(world: World) -> None:
    world.publish([insert(1, image(1, None), missing=["n"]), insert(2, image(2, None), invalid={"n": "?"})])
    assert world.says(delete(21, image(1)), delete(22, image(2))) == (0, 0, {reasons.PARTIAL: 2})


def test_days_of_no_calendar_are_keys_of_their_own(tmp_path: Path) -> None:
    world = World(tmp_path, {1: definition({"d": "date NOT NULL", "at": "datetime"}, key=("d",))})
    days = ("0000-00-00", "2024-00-15", "2024-02-31")
    rows = [{"d": None, "at": None} for _ in days]
    keys = [{"d": day, "at": "0000-00-00 00:00:00"} for day in days]
    world.publish([insert(at, row, invalid=key) for at, (row, key) in enumerate(zip(rows, keys, strict=True), 1)])
    found = [{f"_before.{name}": text for name, text in key.items()} for key in keys]
    found[2]["_before.at"] = "2024-01-00 00:00:00"
    later = [
        {**delete(21 + at, row), "invalid": known} for at, (row, known) in enumerate(zip(rows, found, strict=True))
    ]
    assert world.says(*later) == (3, 1, {})


def lifetime(
    *columns: tuple[Sequence[tuple[int, str, str]], int | None], versions: tuple[int, ...] = (1, 2)
) -> ColumnLifetimes:
    """Columns as steps (version, name, kind) and their end; `key` in the kind makes it one of the key."""
    return ColumnLifetimes(
        versions,
        tuple(
            ColumnLifetime(
                tuple(ColumnStep(version, name, kind, "key" in kind) for version, name, kind in steps), ended
            )
            for steps, ended in columns
        ),
    )


ID = ([(1, "id", "key")], None)


def across(tmp_path: Path, new: TableDefinition, lifetimes: tuple[ColumnLifetimes, ...], before: dict[str, Any]) -> Any:
    """An image of version 1, and what version 2 found of it."""
    world = World(tmp_path, {1: SHAPE, 2: new})
    world.publish([insert(1, image(1, 5))])
    found = world.compare(
        world.subject((2, [{"op": "delete", "seq": 21, "before": before}])), EarlierTable("shop", "orders", lifetimes)
    )
    return numbers(found)


@pytest.mark.parametrize(
    ("columns", "lifetimes", "before", "expected"),
    [
        # A column is added, and one dropped.
        ({"id": "int NOT NULL", "n": "int", "more": "int"},
         (ID, ([(1, "n", "int")], None), ([(1, "text", "t")], 2), ([(2, "more", "int")], None)),
         {"id": 1, "n": 5, "more": 7}, (1, 0, {})),
        ({"id": "int NOT NULL", "n": "int", "more": "int"},
         (ID, ([(1, "n", "int")], None), ([(1, "text", "t")], 2), ([(2, "more", "int")], None)),
         {"id": 1, "n": 6, "more": 7}, (1, 1, {})),
        # Two columns swap their names; one is renamed.
        ({"key": "int NOT NULL", "text": "int", "n": "varchar(9)"},
         (([(1, "id", "key"), (2, "key", "key")], None), ([(1, "n", "int"), (2, "text", "int")], None),
          ([(1, "text", "t"), (2, "n", "t")], None)), {"key": 1, "text": 5, "n": "x"}, (1, 0, {})),
        # A type changes: that column is not compared.
        ({"id": "int NOT NULL", "n": "bigint", "text": "varchar(9)"},
         (ID, ([(1, "n", "int"), (2, "n", "bigint")], None), ([(1, "text", "t")], None)),
         {"id": 1, "n": 6, "text": "x"}, (1, 0, {})),
        ({"id": "int NOT NULL", "n": "bigint", "text": "varchar(9)"},
         (ID, ([(1, "n", "int"), (2, "n", "bigint")], None), ([(1, "text", "t")], None)),
         {"id": 1, "n": 5, "text": "y"}, (1, 1, {})),
        # A column is dropped and made again under its name.
        ({"id": "int NOT NULL", "n": "int"},
         (ID, ([(1, "n", "int")], 2), ([(2, "n", "int")], None)), {"id": 1, "n": 6}, (1, 0, {})),
        # The key is another one, or of another type.
        ({"id": "bigint NOT NULL", "n": "int"},
         (([(1, "id", "key"), (2, "id", "key long")], None), ([(1, "n", "int")], None)), {"id": 1, "n": 5},
         (0, 0, {reasons.CONVERTED: 1})),
        ({"id": "int NOT NULL", "n": "int"},
         (ID, ([(1, "n", "int"), (2, "n", "key too")], None)), {"id": 1, "n": 5}, (0, 0, {reasons.CONVERTED: 1})),
    ],
)  # fmt: skip
def test_versions_are_compared_by_what_ddl_has_left_alone(
    tmp_path: Path, columns: Any, lifetimes: Any, before: Any, expected: Any
) -> None:
    (name,) = [name for name, text in columns.items() if name in {"id", "key"}]
    assert across(tmp_path, definition(columns, (name,)), (lifetime(*lifetimes),), before) == expected


def test_another_table_of_the_name_is_no_past(tmp_path: Path) -> None:
    lifetimes = (lifetime(ID, versions=(1,)), lifetime(([(2, "id", "key")], None), versions=(2,)))
    assert across(tmp_path, SHAPE, lifetimes, image(1, 5)) == (0, 0, {reasons.CONVERTED: 1})


def test_a_version_in_the_middle_of_the_interval_is_compared_with_the_one_before(tmp_path: Path) -> None:
    world = World(tmp_path, {1: SHAPE, 2: definition({"id": "int NOT NULL", "m": "int", "text": "varchar(9)"})})
    past = EarlierTable(
        "shop", "orders", (lifetime(ID, ([(1, "n", "int"), (2, "m", "int")], None), ([(1, "text", "t")], None)),)
    )

    def found(m: int) -> Any:
        first = (1, [insert(11, image(1, 3)), update(12, image(2), image(2, 1)), update(13, image(2, 1), image(2))])
        second = (2, [{"op": "delete", "seq": 14, "before": {"id": 1, "m": m, "text": "x"}}])
        return numbers(world.compare(world.subject(first, second), past))

    world.publish([insert(1, image(1)), delete(2, image(1)), insert(3, image(2))])
    assert (found(3), found(4)) == ((2, 0, {}), (2, 1, {}))


def test_a_key_of_several_columns(tmp_path: Path) -> None:
    world = World(
        tmp_path, {1: definition({"id": "varchar(9) NOT NULL", "n": "int", "text": "varchar(9)"}, ("text", "id"))}
    )
    world.publish([insert(1, image("a", 1, "b")), insert(2, image("b", 2, "a"))])
    assert world.says(delete(21, image("a", 1, "b")), delete(22, image("b", 1, "a"))) == (2, 1, {})


def test_a_file_that_somebody_has_rewritten_ends_the_search(tmp_path: Path) -> None:
    world = World(tmp_path, {1: SHAPE, 2: SHAPE})
    world.publish([insert(1, image(1))])
    path = next(Path(world.lake).rglob("*.parquet"))
    table = pq.read_table(path, partitioning=None)
    at = table.schema.get_field_index("_schema_version")
    doubled = pa.concat_tables(
        [table, table.set_column(at, table.schema.field(at), pa.array([2], table.schema.field(at).type))]
    )
    pq.write_table(doubled, path)
    assert world.says(delete(21, image(1))) == (0, 0, {reasons.UNREADABLE: 1})
    path.unlink()
    assert world.says(delete(21, image(1))) == (0, 0, {reasons.UNREADABLE: 1})


def test_keys_are_sampled_and_the_work_is_bounded(world: World) -> None:
    for number in range(6):
        world.publish([insert(10 * number + key, image(10 * number + key)) for key in range(9)], OLD + number)
    rows = [update(100 + number, image(10 * number), image(10 * number, 1)) for number in range(6)]
    assert world.says(*rows) == (6, 0, {})
    assert world.says(*rows, keys=2) == (2, 0, {})
    assert world.compare(world.subject((1, rows)), keys=0) is None
    assert world.says(*rows, most=2) == (6, 0, {})
    assert world.says(*rows, keys=6, most=2) == (2, 0, {reasons.ENOUGH: 4})
    assert world.says(*rows, keys=5, most=0) == (0, 0, {reasons.ENOUGH: 5})


def test_what_is_read_of_the_interval_itself_is_not_limited(world: World) -> None:
    world.publish([insert(1, image(1)), insert(2, image(2))])
    parts = [[insert(21, image(3))], [update(22, image(3), image(3, 1)), update(23, image(1), image(1, 1))], [
        update(24, image(2, 5), image(2)), update(25, image(1, 1), image(1))]]  # fmt: skip
    found = world.compare(world.subject(*((1, part) for part in parts)), keys=5, most=1)
    # Of key 3 the image before is in the interval, and so it is of the second change of key 1.
    assert numbers(found) == (2, 1, {})


KEYS = st.integers(1, 3)


@st.composite
def stories(draw: Any) -> list[dict[str, Any]]:
    """Changes as a server may write them, but for some images before that are not what was left."""
    state: dict[int, dict[str, Any]] = {}
    rows = []
    for seq in range(1, draw(st.integers(2, 14))):
        key = draw(KEYS)
        if key not in state:
            state[key] = image(key, draw(KEYS))
            rows.append(insert(seq, state[key]))
            continue
        before = {**state[key], "n": 99} if draw(st.integers(0, 3)) == 0 else state[key]
        moved = draw(KEYS)
        del state[key]
        if draw(st.booleans()) and moved not in state:
            state[moved] = image(moved, draw(KEYS))
            rows.append(update(seq, before, state[moved]))
        else:
            rows.append(delete(seq, before))
    return rows


def naive(intervals: list[list[dict[str, Any]]]) -> tuple[int, int, int]:
    """Of the last interval: first images that were compared, broken, and without anything before."""
    last: dict[int, dict[str, Any] | None] = {}
    for row in (row for rows in intervals[:-1] for row in rows):
        if "before" in row:
            last[row["before"]["id"]] = None
        if "after" in row:
            last[row["after"]["id"]] = row["after"]
    seen: set[int] = set()
    compared = broken = missing = 0
    for row in intervals[-1]:
        before = row.get("before")
        if before is not None and before["id"] not in seen:
            compared += before["id"] in last
            broken += before["id"] in last and last[before["id"]] != before
            missing += before["id"] not in last
        seen |= {row[side]["id"] for side in ("before", "after") if side in row}
    return compared, broken, missing


@settings(max_examples=25, deadline=None)
@given(stories(), st.lists(st.integers(0, 14), min_size=1, max_size=3).map(sorted), st.booleans())
def test_it_finds_what_a_loop_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], cuts: list[int], in_two_files: bool
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    parts = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    for number, part in enumerate(parts[:-1]):
        if part:
            world.publish(part, OLD + number)
    last = parts[-1]
    halves = [last[: len(last) // 2], last[len(last) // 2 :]] if in_two_files else [last]
    subject = world.subject(*((1, half) for half in halves if half))
    found = world.compare(subject) if subject.files else None
    rows_, broken, left = numbers(found) if found is not None else (0, 0, {})
    assert (rows_, broken, left.get(reasons.OLDER, 0)) == naive(parts)
    assert set(left) <= {reasons.OLDER}


def test_a_plan_without_a_past_compares_nothing(world: World) -> None:
    world.publish([insert(1, image(1))])
    subject = world.subject((1, [delete(21, image(1))]))
    tasks = [task_of(subject, file, sampling_of(None, NOW)) for file in subject.files]
    passed = PassResults.from_files((task, pass_over(task)) for task in tasks)
    plan = RunPlan(SOURCE, "r", world.lake, (Interval(NOW, NOW + FIVE_MINUTES, 0, 99, ""),))
    work = EarlierComparison(world.lake, plan, DecodedRun(()), RunPast(), {NOW: [subject]})
    (found,) = work.compare(passed.firsts(), passed.profiles(), None).values()
    assert numbers(found) == (0, 0, {reasons.UNPLANNED: 1})
