"""The model's stream, written as a changefeed's folder and read from there: the same rows, and the model's table."""

from __future__ import annotations

import pytest

from tests.model import demo
from tests.model.sink import SinkRow, users_rows
from tests.model.through_folder import EXACT, LACKING, longest_histories, table_of, write_table
from tests.ticdc import generator, reading

FORMS = {
    "csv": generator.FeedForm(old_value=True, terminator="\n"),
    "canal": generator.FeedForm(protocol="canal-json"),
}
STREAMS = 15
"""So many of the longest streams of each kind."""


def read(folder, form, history):
    feed = generator.Feed(folder, FORMS[form])
    changes = write_table(feed, "t", history)
    feed.checkpoint(generator.START + 1_000_000)
    return changes, reading.read(folder)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", EXACT)
def test_the_folder_of_a_stream_gives_the_table_of_the_model(tmp_path, kind, form):
    for number, history in enumerate(longest_histories(kind, STREAMS)):
        changes, got = read(tmp_path / str(number), form, history)
        assert got.error is None
        assert not got.aside
        assert not got.holes
        written = [change.commit_ts for change in changes if isinstance(change, SinkRow)]
        assert [ts - generator.START for ts, *_ in got.rows] == written
        values = {ts - generator.START: after for ts, _, _, _, after in got.rows}
        assert table_of(changes, values) == users_rows(history)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LACKING)
def test_what_a_stream_lacks_is_told(tmp_path, kind, form):
    for number, history in enumerate(longest_histories(kind, STREAMS)):
        _, got = read(tmp_path / str(number), form, history)
        assert len(got.holes) == len(history.stream.ddl())


def test_the_demo_proves_it_by_the_command(capsys):
    assert demo.main() == 0
    assert "8 of 8" in capsys.readouterr().out
