"""Images of one key behind each other: what the pass finds is what a plain loop over the changes finds."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.chains import FOUND, LEFT
from strata_cdc.changes.arrow import image_fields
from strata_cdc.quality.checks.before_after import Edges, broken_between
from strata_cdc.quality.checks.kept_edges import MOST_BYTES
from strata_cdc.quality.checks.one_pass import PassBuffers, pass_over
from strata_cdc.quality.checks.pass_engine import PassEngine, task_of
from strata_cdc.quality.checks.pass_results import PassResults
from strata_cdc.quality.checks.profile import EXAMPLES
from strata_cdc.quality.checks.rules import StreamFacts
from strata_cdc.quality.checks.run import judge_interval
from strata_cdc.quality.checks.subject import JudgedFile, TableSubject
from tests.tables.changes import INTERVAL, ORDERS, changes, definition, stage

SHAPE = definition({"a": "varchar(3) NOT NULL", "b": "bigint unsigned NOT NULL", "x": "varchar(2)"}, key=("b", "a"))

IMAGES = st.fixed_dictionaries(
    {"a": st.sampled_from(["", "k", "kk"]), "b": st.integers(0, 1), "x": st.sampled_from([None, "", "v"])}
)


@st.composite
def stories(draw: Any) -> list[dict[str, Any]]:
    rows = []
    for seq in range(1, draw(st.integers(2, 12))):
        op = draw(st.sampled_from(["insert", "update", "delete"]))
        row: dict[str, Any] = {"op": op, "seq": seq}
        if op != "insert":
            row["before"] = draw(IMAGES)
        if op != "delete":
            row["after"] = draw(IMAGES)
        rows.append(row)
    return rows


def naive(rows: list[dict[str, Any]], key: tuple[str, ...]) -> list[int]:
    """Transactions with a change that does not follow from the one before it."""
    last: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
    found = []
    for row in rows:
        for side in ("before", "after"):
            image = row.get(side)
            if image is None:
                continue
            known = last.get(tuple(image[name] for name in key))
            if known is not None and (known[0] == side or (side == "before" and known[1] != image)):
                found.append(row["seq"])
            last[tuple(image[name] for name in key)] = (side, image)
    return found


def passed(
    folder: Path, rows: list[dict[str, Any]], cuts: list[int], *, shuffled: bool, most_bytes: int = MOST_BYTES
) -> list[int]:
    """The same, by the pass over files that are cut at some rows; `shuffled` mixes rows of two files."""
    fields = {field.name: field.type for field in image_fields(SHAPE)}
    parts = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True) if begin < end]
    if shuffled and len(parts) > 1:
        parts = [[*parts[0][:-1], parts[1][-1]], [parts[0][-1], *parts[1][:-1]], *parts[2:]]
        parts = [part for part in parts if part]
    files = [
        JudgedFile(one.url, one.digest, 1, one.rows, 0, 0, one.size_bytes, one.stats)
        for at, part in enumerate(parts)
        for one in stage(folder, changes(fields, part), slice_key=str(at))
    ]
    subject = TableSubject(ORDERS, tuple(files), StreamFacts(len(rows), 1, 20, (1,)), {1: SHAPE})
    tasks = [task_of(subject, file) for file in files]
    buffers = PassBuffers()  # of one file after the other, as in a thread
    passes = [(task, pass_over(task, buffers)) for task in tasks]
    engine = PassEngine(PassResults.from_files(passes, most_bytes), lambda *_: [])
    judge_interval(engine, "shop", INTERVAL, "now", [subject])
    (found,) = (one.found for suite in engine.suites for one in suite.rules if one.rule.chain is not None)
    assert [json.loads(example.text)["_seq"] for example in found.examples] == sorted(
        json.loads(example.text)["_seq"] for example in found.examples
    )
    return [found.unexpected, *(json.loads(example.text)["_seq"] for example in found.examples)]


@settings(max_examples=40, deadline=None)
@given(
    stories(),
    st.lists(st.integers(1, 10), max_size=3, unique=True).map(sorted),
    st.booleans(),
    st.sampled_from([0, 100, MOST_BYTES]),
)
def test_the_pass_finds_what_a_loop_finds(
    rows: list[dict[str, Any]], cuts: list[int], shuffled: bool, most_bytes: int
) -> None:
    expected = naive(rows, ("b", "a"))
    cuts = [cut for cut in cuts if cut < len(rows)]
    with tempfile.TemporaryDirectory() as folder:
        found = passed(Path(folder), rows, cuts, shuffled=shuffled, most_bytes=most_bytes)
    assert found == [len(expected), *expected[:EXAMPLES]]


PASS = """
import pickle, sys
from pathlib import Path
from strata_cdc.quality.checks.one_pass import pass_over
print(pass_over(pickle.loads(Path(sys.argv[1]).read_bytes())).profile.chain.rows, "pandas" in sys.modules)
"""


def test_a_file_of_inserts_is_judged_without_pandas(tmp_path):
    fields = {field.name: field.type for field in image_fields(SHAPE)}
    rows = changes(fields, [{"op": "insert", "seq": 1, "after": {"a": "k", "b": 1, "x": None}}])
    (one,) = stage(tmp_path, rows)
    file = JudgedFile(one.url, one.digest, 1, one.rows, 0, 0, one.size_bytes, one.stats)
    subject = TableSubject(ORDERS, (file,), StreamFacts(1, 1, 20, (1,)), {1: SHAPE})
    task = tmp_path / "task"
    task.write_bytes(pickle.dumps(task_of(subject, file)))
    done = subprocess.run([sys.executable, "-c", PASS, task], check=True, capture_output=True, text=True)
    assert done.stdout == "1 False\n"


FILES = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=8), min_size=2, max_size=9)


@given(FILES)
def test_keys_that_no_other_file_can_have_are_left_out_for_nothing(files):
    """Files whose keys mostly lie behind those of the file before."""
    edges = []
    for number, some in enumerate(files):
        key = np.array(list(dict.fromkeys(15 * number + key for _, key in some)), np.int64)
        image = np.resize(np.array([image for image, _ in some], np.int64), len(key))
        side = np.full(len(key), FOUND, np.uint8)
        edges.append(Edges(key, image, side, np.arange(len(key)), image, side + LEFT, np.ones(len(key), np.bool_)))
    found, whole = broken_between(edges), broken_between(edges, most_near=-1)
    assert [column.tolist() for column in found] == [column.tolist() for column in whole]
