"""The settings file: every mistake at once, and no secret anywhere."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from scripts.state import REPOSITORY
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import SourceSettings, load_settings
from strata_cdc.config.toml_file import key_lines
from strata_cdc.errors import SettingsError, SourceSettingsError, UnknownSourceError

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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"host": "2001:db8::7", "login": "u"}', ("2001:db8::7", 3306, "u", "")),
        ('{"host": "[2001:db8::7]", "port": "3307"}', ("2001:db8::7", 3307, "root", "")),
        ("mysql://u:p@2001%3Adb8%3A%3A7:3307", ("2001:db8::7", 3307, "u", "p")),  # as Airflow writes it
        ("mysql://u@fe80%3A%3A1%25eth0", ("fe80::1%eth0", 3306, "u", "")),
        ('{"host": "h", "password": 12345, "port": null, "schema": null}', ("h", 3306, "root", "12345")),
    ],
)
def test_a_connection_of_any_form_is_read(tmp_path, text, found):
    source = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=text)).source("shop")
    one, again = source.address, ServerAddress.from_url(source.store_url)
    assert (one.host, one.port, one.user, one.password) == found
    assert (again.host, again.port, again.user, again.password) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"host": null, "login": "u"}', "is not that of a MySQL server"),
        ('{"host": "h", "extra": [1]}', "the extra of a connection is no JSON"),
        ('{"host": "h"', "starts like JSON and is none"),
        ("mysql://u@%2Fvar%2Frun%2Fmysqld.sock", "the host of a server is a path"),
        ('{"host": "h", "extra": {"unix_socket": "/run/s"}}', "unix_socket: no option"),
        ("mysql://u@h:port/", "no readable port"),
    ],
)
def test_a_connection_that_cannot_be_read_is_named(tmp_path, text, said):
    settings = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=text))
    with pytest.raises(SettingsError, match=said) as caught:
        settings.source("shop")
    assert caught.value.message.startswith("connection 'mysql_shop': ")
    assert caught.value.source == "shop"


@pytest.mark.parametrize(("extra", "tls"), [("{}", "PREFERRED"), ('{"ssl_mode": "REQUIRED"}', "REQUIRED")])
def test_a_connection_that_was_saved_in_airflows_form_is_read_too(tmp_path, extra, tls):
    """Its Extra is JSON there; what Airflow cannot write as options, an empty one too, becomes one of this name."""
    url = f"mysql://strata:s%40cret@db.example:3307/?{urlencode({'__extra__': extra})}"
    address = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=url)).source("shop").address
    assert (address.host, address.password, address.tls) == ("db.example", "s@cret", tls)


def test_a_connection_whose_variable_no_shell_can_export_is_set_as_the_error_says(tmp_path):
    settings = load_settings(environment(tmp_path, GOOD.replace("mysql_shop", "mysql-shop")))
    with pytest.raises(SettingsError, match="is not set") as caught:
        settings.source("shop")
    (command,) = re.findall("`(env .*)`", caught.value.remedy)
    found = subprocess.run(["sh", "-c", f"{command} env"], capture_output=True, text=True, check=True).stdout
    assert "AIRFLOW_CONN_MYSQL-SHOP=mysql://USER:PASSWORD@HOST:PORT/" in found.splitlines()


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    load_settings(environment(tmp_path, "\ufeff" + GOOD))


def test_no_repr_shows_a_password(tmp_path):
    settings = load_settings(environment(tmp_path, GOOD, AIRFLOW_CONN_MYSQL_SHOP=URL))
    assert "s@cret" not in repr(settings) + repr(settings.source("shop"))


COLUMNS = 'sensitive: "customers.email" matches no column: it is database.table.column'


def test_all_mistakes_are_told_together(tmp_path):
    text = """
    laek = "x"
    [sources.shop]
    tables = "shop.*"
    slice_mb = -1
    sensitive = ["customers.email", "shop.customers.email"]
    store = "mysql://u:hidden@h/strata"
    copied_from = ["shop", "nowhere"]
    """
    with pytest.raises(SettingsError) as caught:
        load_settings(environment(tmp_path, text))
    said = str(caught.value)
    for word in (
        "lake is missing",
        "laek",
        "tables is not a list",
        "slice_mb",
        "connection is missing",
        "store holds",
        COLUMNS,
        'copied_from: "shop" is no other source',
        'copied_from: "nowhere" is no other source',
    ):
        assert word in said
    assert "hidden" not in said


def test_a_source_knows_the_lineage_of_what_it_was_copied_from(tmp_path):
    text = """
    lake = "lake"
    [sources.shard_a]
    connection = "mysql_shop"
    lineage = "2026-11"
    [sources.shard_a1]
    connection = "mysql_shop"
    copied_from = ["shard_a"]
    """
    settings = load_settings(environment(tmp_path, text, AIRFLOW_CONN_MYSQL_SHOP=URL))
    assert settings.source("shard_a1").copied_from == {"shard_a": "2026-11"}
    assert settings.source("shard_a").copied_from == {}


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
    settings = load_settings(environment(tmp_path, example))
    for field in SourceSettings.__struct_fields__:
        assert f"\n{field} = " in example
    assert settings.lake == "/data/lake"
    assert settings.sources["shop"].store == "sqlite:////data/strata.db"
    assert settings.sources["audit"] == SourceSettings("mysql_audit", store_connection="strata_store")


MISTAKES = """\
store = "mysql://u:hidden@h/strata"   # line 1
store_connection = "hub"
lake = "s3://bucket/?access_key=hidden"
[source.old]
connection = "c"

[sources.shop]
connect = "hidden"
tables = [
  "shop.*",
  1,
]
keep_days = 0
owed_since = 2026-11-01T00:00:00
on_statement = "skip"

[sources."a b"]
connection = ""
watch_replication_stream = "yes"
store = "sqlite://"
"""
SAID = [
    "line 1: store and store_connection are two stores",
    "line 1: store holds a password",
    "line 3: lake holds options or a key",
    "line 4: source is not a setting: do you mean sources? "
    "(there are: lake, sources, store, store_connection, rows_in_airflow, fresh_within_minutes, clock_bound, groups)",
    "line 7: sources.shop.connection is missing: the id of the connection to the server, a text",
    "line 8: sources.shop.connect is not a setting: do you mean connection? (there are: connection, store,",
    'line 9: sources.shop.tables is not a list of texts, as in ["shop.*"]',
    "line 13: sources.shop.keep_days is not a whole number above 0",
    "line 14: sources.shop.owed_since is not a time with a zone",
    'line 15: sources.shop.on_statement is not either "publish" or "hold"',
    "line 17: sources.a b: a name has letters",
    "line 18: sources.a b.connection is not the id",
    "line 19: sources.a b.watch_replication_stream is not true or false",
    "line 20: sources.a b.store is in memory",
]


def test_each_mistake_has_its_line_and_no_value(tmp_path):
    with pytest.raises(SettingsError) as caught:
        load_settings(environment(tmp_path, MISTAKES))
    reported = caught.value.message.split("\n  ")
    assert reported[0] == f"the settings have {len(SAID)} mistakes:"
    for found, begin in zip(reported[1:], SAID, strict=True):
        assert found.startswith(begin)
    assert "hidden" not in str(caught.value)


def test_lines_are_those_of_the_statements_however_they_are_written():
    text = '''# a comment
a = """
b = 1
"""
[ "t.x" . y ]  # [no]
k.l = [ # [c]
  { m = 1 },
]
[[u]]
n = "\u2028"
o = 1'''
    assert key_lines(text) == {
        ("a",): 2,
        ("t.x",): 5,
        ("t.x", "y"): 5,
        ("t.x", "y", "k"): 6,
        ("t.x", "y", "k", "l"): 6,
        ("t.x", "y", "k", "l", "m"): 6,
        ("u",): 9,
        ("u", "n"): 10,
        ("u", "o"): 11,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sources = 1", "sources is not a table of tables"),
        ("[[sources]]", "sources is not a table of tables"),
        ("sources.shop = 1", "sources.shop is not a table"),
        ("[sources.shop]\nconnection = 'c'\nstore = '/data/strata.db'", "line 2: sources.shop.store is not a URL"),
        ("[sources.shop]\nconnection = 'c'\nstore = 'mysql://h/s?password=hidden'", "store holds a password"),
        ("[sources.shop]\nconnection = 'c'\nstore = 'mysql://u:hid/den@[h/s'", "store holds a password"),
        ("[sources.shop]\nconnection = 'c'\nowed_since = '2026-11-01T00:00:00Z'", "owed_since is not a time"),
        ("[sources.shop]\nconnection = 'c'\nslice_mb = 1.5", "slice_mb is not a whole number"),
        (f"[sources.{'s' * 65}]\nconnection = 'c'", "at most 64"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(tmp_path, text, said):
    with pytest.raises(SettingsError) as caught:
        load_settings(environment(tmp_path, f"lake = 'x'\n{text}"))
    assert said.replace("line 2", "line 4") in str(caught.value)
    assert "hid" not in str(caught.value)


def test_the_store_of_the_top_is_that_of_all_sources_that_name_none(tmp_path):
    text = """
    lake = "lake"
    store_connection = "hub"
    [sources.a]
    connection = "a"
    [sources.b]
    connection = "b"
    store = "sqlite:////b.db"
    [sources.c]
    connection = "c"
    store_connection = "c"
    """
    urls = {f"AIRFLOW_CONN_{name.upper()}": f"mysql://strata@{name}/shop" for name in ("a", "b", "c")}
    hub = "mysql://strata:p@hub:3306/strata_hub"
    settings = load_settings(environment(tmp_path, text, AIRFLOW_CONN_HUB=hub, **urls))
    assert [settings.source(name).store_url for name in ("a", "b", "c")] == [
        hub,
        "sqlite:////b.db",
        "mysql://strata@c:3306/strata",
    ]
    assert settings.sources["a"].store_connection == "hub"


def test_the_bound_of_the_clocks_is_one_of_all_sources(tmp_path):
    source = '[sources.s]\nconnection = "c"\n'
    assert load_settings(environment(tmp_path, f'lake = "l"\n{source}')).clock_bound is None
    assert load_settings(environment(tmp_path, f'lake = "l"\nclock_bound = "250ms"\n{source}')).clock_bound == 250_000
    for wrong, said in (
        ('"0s"', "clock_bound is 0: no"),
        ("5", "is not a time, as in"),
        ('"5 s"', "is not a time, as"),
    ):
        with pytest.raises(SettingsError) as caught:
            load_settings(environment(tmp_path, f'lake = "l"\nclock_bound = {wrong}\n{source}'))
        assert "line 2: clock_bound" in caught.value.message
        assert said in caught.value.message


def test_a_time_is_kept_to_the_microsecond(tmp_path):
    settings = load_settings(environment(tmp_path, GOOD + "owed_since = 2026-11-01T02:00:00.000001+02:00"))
    shop = settings.sources["shop"]
    assert shop.owed_since == datetime(2026, 11, 1, microsecond=1, tzinfo=UTC)
    assert shop.owed_since_micros == 1793491200000001


SINK = """
lake = "lake"
[sources.s]
kind = "ticdc"
url = "sink"
store = "sqlite:///s.db"
"""


def test_a_sink_needs_no_server(tmp_path):
    source = load_settings(environment(tmp_path, SINK)).source("s")
    assert source.is_sink
    assert (source.settings.url, source.store_url) == (str(tmp_path / "sink"), f"sqlite:///{tmp_path}/s.db")
    with pytest.raises(SourceSettingsError, match="this needs a server"):
        _ = source.address


@pytest.mark.parametrize("kind", ["", 'kind = "mysql"', 'kind = "server"'])
def test_a_source_is_a_server_unless_it_says_otherwise(tmp_path, kind):
    source = load_settings(environment(tmp_path, f"{GOOD}{kind}", AIRFLOW_CONN_MYSQL_SHOP=URL)).source("shop")
    assert source.address.host == "db.example"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SINK.replace('url = "sink"', ""), "sources.s.url is missing: the folder or URL of the TiCDC sink"),
        (SINK.replace('store = "sqlite:///s.db"', ""), "sources.s.store is missing: there is no server"),
        (f'{SINK}connection = "c"', "line 7: sources.s.connection is for a server: leave it out"),
        (f"{SINK}land_mb_per_second = 5", "sources.s.land_mb_per_second is for a server"),
        (f'{SINK}binary_encoding = "octal"', 'sources.s.binary_encoding is not either "base64" or "hex"'),
        (f'{GOOD}time_zone = "UTC"', "sources.shop.time_zone is for the folder of a TiCDC sink"),
        (SINK.replace('"ticdc"', '"tidb"'), 'sources.s.kind is not either "mysql" or "ticdc"'),
        ('lake = "l"\n[sources.s]\nkind = "mysql"', "sources.s.connection is missing: the id of the connection"),
    ],
)
def test_each_kind_of_source_has_its_settings(tmp_path, text, said):
    with pytest.raises(SettingsError) as caught:
        load_settings(environment(tmp_path, text))
    assert said in str(caught.value)
