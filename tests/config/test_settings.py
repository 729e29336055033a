"""The settings file: every mistake at once, and no secret anywhere."""

from __future__ import annotations

import dataclasses

import pytest

from strata.config.settings import SourceSettings, load_settings
from strata.errors import SettingsError, UnknownSourceError
from tests.mysql_server import REPOSITORY

GOOD = """
lake = "lake"
[sources.shop]
connection = "mysql_shop"
tables = ["shop.*"]
"""
URL = "mysql://strata:s%40cret@db.example:3307/"


def environment(tmp_path, text, **more):
    path = tmp_path / "strata.toml"
    path.write_text(text)
    return {"STRATA_SETTINGS": str(path), **more}


def test_a_source_has_its_address_store_and_lake(tmp_path):
    source = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=URL)).source("shop")
    assert (source.address.host, source.address.port, source.address.user) == ("db.example", 3307, "strata")
    assert source.address.password == "s@cret"
    assert source.lake == str(tmp_path / "lake")
    assert source.store_url == "mysql://strata:s%40cret@db.example:3307/strata"


def test_airflows_json_form_of_a_connection_is_read_too(tmp_path):
    text = '{"conn_type": "mysql", "host": "h", "login": "u", "password": "p:/@", "port": 3306}'
    source = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=text)).source("shop")
    assert (source.address.host, source.address.user, source.address.password) == ("h", "u", "p:/@")


def test_no_repr_shows_a_password(tmp_path):
    settings = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=URL))
    assert "s@cret" not in repr(settings) + repr(settings.source("shop"))


def test_all_mistakes_are_told_together(tmp_path):
    text = """
    laek = "x"
    [sources.shop]
    tables = "shop.*"
    slice_mb = -1
    store = "mysql://u:hidden@h/strata"
    """
    with pytest.raises(SettingsError) as caught:
        load_settings(environment(tmp_path, text))
    said = str(caught.value)
    for word in ("lake is missing", "laek", "tables is not a list", "slice_mb", "connection is missing", "store holds"):
        assert word in said
    assert "hidden" not in said


@pytest.mark.parametrize(("text", "word"), [("lake = [", "no TOML"), ("lake = 'x'", "no source")])
def test_a_file_without_sense_is_refused(tmp_path, text, word):
    with pytest.raises(SettingsError, match=word):
        load_settings(environment(tmp_path, text))


def test_a_missing_file_variable_source_or_connection_is_named(tmp_path):
    with pytest.raises(SettingsError, match="STRATA_SETTINGS"):
        load_settings({})
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings({"STRATA_SETTINGS": str(tmp_path / "none.toml")})
    settings = load_settings(environment(tmp_path, GOOD))
    with pytest.raises(UnknownSourceError, match="shop"):
        settings.source("other")
    with pytest.raises(SettingsError, match="AIRFLOW_CONN_MYSQL_SHOP"):
        settings.source("shop")


def test_the_documented_example_names_every_setting(tmp_path):
    page = (REPOSITORY / "docs" / "settings.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]
    example = example.replace("# store", "store")
    settings = load_settings(environment(tmp_path, example))
    for field in dataclasses.fields(SourceSettings):
        assert field.name in example
    assert settings.lake == "/data/lake"
