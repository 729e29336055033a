"""What is relative in the settings, or in a connection, is beside the settings file."""

from __future__ import annotations

import pytest

from strata_cdc.config.paths import store_beside
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import SettingsError

SETTINGS = """
lake = "lake"
[sources.shop]
connection = "shop"
checks = "checks/shop"
store = "sqlite:///strata.db"
[sources.audit]
connection = "shop"
checks = "s3://bucket/checks"
store_connection = "hub"
"""
SHOP = "mysql://u:p%2F@h:1/?ssl_mode=verify_ca&ssl_ca=tls/ca.pem&ssl_cert=/etc/c.pem&ssl_key=k.pem"
HUB = "mysql+pymysql://u:p%2F@h:1/strata?ssl_ca=tls/ca.pem&compression=zstd"


def load(folder, text, **connections):
    path = folder / "strata.toml"
    path.write_text(text)
    return load_settings({"STRATA_SETTINGS": str(path)}, connections.get)


def test_all_paths_are_beside_the_settings(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    settings = load(tmp_path, SETTINGS, shop=SHOP, hub=HUB)
    shop, audit = settings.source("shop"), settings.source("audit")
    assert shop.lake == f"{tmp_path}/lake"
    assert shop.settings.checks == f"{tmp_path}/checks/shop"
    assert shop.store_url == shop.settings.store == f"sqlite:///{tmp_path}/strata.db"
    tls = (shop.address.tls_ca, shop.address.tls_cert, shop.address.tls_key)
    assert tls == (f"{tmp_path}/tls/ca.pem", "/etc/c.pem", f"{tmp_path}/k.pem")
    assert audit.settings.checks == "s3://bucket/checks"
    assert audit.store_url.startswith("mysql+pymysql://u:p%2F@h:1/strata?ssl_ca=")
    assert audit.store_url.endswith("%2Ftls%2Fca.pem&compression=zstd")


WITHOUT_FILE = """
lake = "s3://bucket/lake"
[sources.shop]
connection = "shop"
checks = "/etc/checks"
store = "sqlite:////data/strata.db"
"""


def of_text(text, shop="mysql://u@h/"):
    return load_settings({"STRATA_SETTINGS_TEXT": text}, {"shop": shop}.get).source("shop")


def test_settings_in_no_file_have_whole_paths():
    shop = of_text(WITHOUT_FILE, "mysql://u@h/?ssl_ca=/etc/ca.pem")
    assert (shop.lake, shop.settings.checks) == ("s3://bucket/lake", "/etc/checks")
    assert (shop.store_url, shop.address.tls_ca) == ("sqlite:////data/strata.db", "/etc/ca.pem")


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        (WITHOUT_FILE.replace("s3://bucket/lake", "lake"), "mysql://u@h/", "lake"),
        (WITHOUT_FILE.replace("/etc/checks", "checks"), "mysql://u@h/", "checks"),
        (WITHOUT_FILE.replace("////data/strata.db", "///strata.db"), "mysql://u@h/", "strata.db"),
        (WITHOUT_FILE, "mysql://u@h/?ssl_ca=ca.pem", "ca.pem"),
    ],
    ids=["lake", "checks", "store", "certificate"],
)
def test_where_a_relative_path_begins_is_not_guessed(text, url, path):
    with pytest.raises(SettingsError, match=f"'{path}' is relative, and these settings are in no file"):
        of_text(text, url)


def test_a_mistake_in_a_text_names_the_variable():
    with pytest.raises(SettingsError, match="colour") as caught:
        of_text(WITHOUT_FILE + "colour = 1\n")
    assert caught.value.file == "STRATA_SETTINGS_TEXT"


def test_a_file_and_a_text_are_not_taken_together(tmp_path):
    path = tmp_path / "strata.toml"
    path.write_text(SETTINGS)
    with pytest.raises(SettingsError, match="STRATA_SETTINGS and STRATA_SETTINGS_TEXT are both set"):
        load_settings({"STRATA_SETTINGS": str(path), "STRATA_SETTINGS_TEXT": WITHOUT_FILE})


@pytest.mark.parametrize(
    ("url", "placed"),
    [
        ("sqlite:///a.db", "sqlite:////conf/a.db"),
        ("sqlite+pysqlite:///../a.db?timeout=5", "sqlite+pysqlite:////a.db?timeout=5"),
        ("sqlite:////a.db", "sqlite:////a.db"),
        ("sqlite:///file:a.db?uri=true", "sqlite:///file:a.db?uri=true"),
        ("postgresql://h/strata", "postgresql://h/strata"),
    ],
)
def test_a_store_of_sqlite_is_a_file(tmp_path, url, placed):
    (tmp_path / "conf").mkdir()
    assert store_beside(tmp_path / "conf", url) == placed.replace("////conf", f"///{tmp_path}/conf").replace(
        "+pysqlite:////a.db", f"+pysqlite:///{tmp_path}/a.db"
    )


@pytest.mark.parametrize("lake", ["a%20b", "a[1]", "{a}", "a*", "a?", r"a\b"])
def test_a_lake_that_some_library_does_not_take_is_refused(tmp_path, lake):
    with pytest.raises(SettingsError, match="lake"):
        load(tmp_path, SETTINGS.replace('"lake"', f"'{lake}'"))


@pytest.mark.parametrize("lake", ["a b", "ü", "100%", "a#b", "s3://bucket/a%20b"])
def test_other_names_are_taken(tmp_path, lake):
    assert load(tmp_path, SETTINGS.replace('"lake"', f"'{lake}'")).lake.endswith(lake)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ('["app"]', 'line 5: sources.shop.tables: "app" matches no table: it has no dot, as in "app.*"'),
        ("[]", "line 5: sources.shop.tables is empty, and nothing would be decoded"),
        ('["a*"]\nexclude = ["b"]', 'line 6: sources.shop.exclude: "b" matches no table'),
    ],
)
def test_patterns_that_can_match_nothing_are_mistakes(tmp_path, tables, said):
    text = f'\nlake = "lake"\n[sources.shop]\nconnection = "c"\ntables = {tables}\n'
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)
