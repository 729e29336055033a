"""A group in Airflow: one mapped line behind the runs of its sources, which tells of the cut that all have passed,
and below it a line for each source."""

from __future__ import annotations

import pytest

from strata_cdc.groups.cuts.group_cut import group_cut
from strata_cdc.position.token_text import from_text
from tests.airflow.pipeline import make_account

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]
LIFE = """
DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO orders VALUES (1, 'first'), (2, 'second');
"""


def test_a_group_publishes_what_all_of_its_sources_have_passed(source_server, make_pipeline):
    """A group of the shop alone; cuts through several sources are in tests/groups/test_group_tables.py."""
    url = make_account(source_server)
    source_server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata;")
    source_server.run_sql(LIFE)
    pipeline = make_pipeline(url)
    path = pipeline.state.settings_file
    path.write_text(f'{path.read_text()}[groups.all]\nsources = ["shop"]\n')
    before = group_cut("all", settings=pipeline.settings)
    assert before.cut is None
    assert "nothing of shop is published" in before.lacking
    said = pipeline.ingest()
    assert "a new cut at" in said
    assert "group all: watermark " in said
    assert "shop: transaction " in said
    assert pipeline.labels("publish_group") == ["all"]
    assert pipeline.labels("source_at_cut") == ["all / shop"]
    [reported] = pipeline.asset_events("strata://all/cut")
    assert [one["source"] for one in reported["sources"]] == ["shop"]
    assert [place.source for place in from_text(reported["token"]).places] == ["shop"]
