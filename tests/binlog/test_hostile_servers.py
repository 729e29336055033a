"""A server that is broken, or no friend: one clear error each, nothing of this machine given away, nothing left."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import replace

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, connect
from strata_cdc.binlog.protocol.limits import ServerLimits
from strata_cdc.cli.main import run
from strata_cdc.errors import (
    CorruptEventError,
    LakeUnavailableError,
    SourceSettingsError,
    SourceUnavailableError,
    StrataError,
)
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.store.database import open_store
from tests.binlog.hostile import (
    EOF,
    OK,
    PASSWORD,
    PATIENT,
    Peer,
    error,
    event,
    format_event,
    greeting,
    hostile,
    rotate,
    source,
)
from tests.interposed import interposed

ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b2J\r\nstrata: all is well"


def open_both(address: ServerAddress) -> list[StrataError]:
    """What a plain connection and the store say of a server that refuses."""
    found = []
    for opened in (connect, lambda one: open_store(one.to_url("strata"))):
        with pytest.raises(StrataError) as caught:
            opened(address)
        assert PASSWORD not in str(caught.value)
        found.append(caught.value)
    return found


def asks_for_the_password(plugin: bytes, data: bytes):
    def serve(peer: Peer) -> None:
        peer.send(greeting())
        peer.receive()
        peer.send(b"\xfe" + plugin + b"\0" + data)
        if peer.receive():
            peer.send(OK)
        while peer.receive():
            peer.send(OK)

    return serve


REVEALING = [(b"mysql_clear_password", b""), (b"dialog", b"\2Password: "), (b"mysql_old_password", b"12345678")]


@pytest.mark.parametrize(("plugin", "data"), REVEALING)
def test_a_password_is_not_sent_in_clear(plugin, data):
    with hostile(asks_for_the_password(plugin, data)) as (address, heard):
        for said in open_both(address):
            assert isinstance(said, SourceSettingsError)
            assert plugin.decode() in str(said)
            assert "enable_cleartext_plugin" in str(said)
    assert PASSWORD.encode() not in heard


def test_a_password_is_sent_in_clear_where_a_setting_says_so():
    with hostile(asks_for_the_password(b"mysql_clear_password", b"")) as (address, heard):
        connect(ServerAddress.from_url(address.to_url("") + "?enable_cleartext_plugin=true")).close()
    assert PASSWORD.encode() in heard


def test_no_file_of_this_machine_is_sent(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of this machine")

    def wants_it(peer: Peer) -> None:
        peer.send(b"\xfb" + str(secret).encode())
        while peer.receive():
            peer.send(OK)

    for word in ("server_uuid", "GET_LOCK", "wait_timeout", "NAMES", "AUTOCOMMIT", "checksum"):
        with hostile(source(**{word: wants_it})) as (address, heard):
            with pytest.raises(SourceUnavailableError) as caught:
                land_binlog(address, lake=str(tmp_path / "lake"), source="s")
            assert b"of this machine" not in heard
            if word not in ("NAMES", "AUTOCOMMIT"):
                assert "asks for a file of this machine" in str(caught.value)


def test_nothing_that_logs_in_is_waited_for_in_vain():
    def endless(peer: Peer) -> None:
        peer.send(greeting())
        peer.receive()
        while True:
            time.sleep(0.05)
            peer.send(b"\1\3")  # caching_sha2_password: the fast way has worked, an OK follows

    for serve in (lambda peer: peer.receive(), endless):
        with hostile(serve, ServerLimits(connect_seconds=0.3, login_seconds=1)) as (address, _):
            began = time.monotonic()
            with pytest.raises(SourceUnavailableError):
                connect(address)
            # Without a limit the second one never ends.
            assert time.monotonic() - began < 60


@pytest.mark.parametrize("seed", range(24))
def test_what_is_no_answer_of_mysql(seed, tmp_path):
    """Random bytes, or a right packet that was damaged, at any step of a landing."""
    limits = ServerLimits(connect_seconds=0.5, silence_seconds=0.5, lock_seconds=0.5, owner_seconds=0)
    chance = random.Random(seed)
    step = chance.randrange(6)

    def damaged(packet: bytes) -> bytes:
        kind = chance.randrange(4)
        if kind == 0:
            return chance.randbytes(chance.randrange(60))
        if kind == 1:
            return packet[: chance.randrange(len(packet) + 1)]
        at = chance.randrange(len(packet))
        return packet[:at] + chance.randbytes(1) + packet[at + 1 :]

    class Damaging(Peer):
        sent = 0

        def send(self, payload: bytes) -> None:
            self.sent += 1
            super().send(damaged(payload) if self.sent > step else payload)

    with hostile(lambda peer: source()(Damaging(peer.sock, peer.heard)), limits) as (address, _):
        said = ""
        try:
            land_binlog(address, lake=str(tmp_path), source="s")
        except StrataError as refused:
            said = str(refused)
    assert said.isprintable()
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".part", ".binlog")]


@pytest.mark.parametrize(
    "row",
    [
        (),
        (None,) * 7,
        ("x",) * 7,
        (ESCAPES,) * 7,
        ("u", "9.7.4", "ON", 1, "no set", "", 1),
        ("u", "9.7.4", "ON", 1, "", "", "now"),
        ("only one",),
    ],
)
def test_odd_rows(row, tmp_path):
    with hostile(source(server_uuid=[row] if row else [])) as (address, _), pytest.raises(StrataError) as caught:
        land_binlog(address, lake=str(tmp_path), source="s")
    assert str(caught.value).isprintable()


NAMES = [
    b"", b"\0", b"binlog.000001\0", b"../../x.000001", b"/etc/x.000001", b"..", b"binlog", b"a/../b.000001",
    b"\x1b[31m.000001", b"b\n.000001", b"x" * 250 + b".000001", b"\\x.000001", b".000001/..",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_files(name, tmp_path):
    def dump(peer: Peer) -> None:
        peer.send(rotate(name))
        peer.send(format_event())
        peer.send(EOF)

    with hostile(source(dump)) as (address, _), pytest.raises(CorruptEventError, match="names a binlog") as caught:
        land_binlog(address, lake=str(tmp_path / "lake"), source="s")
    assert str(caught.value).isprintable()
    listed = {"BINARY LOGS": [(name.decode(), 4)], "gtid_mode": "OFF"}
    mode = listed.pop("gtid_mode")
    with hostile(source(dump, gtid_mode=mode, **listed)) as (address, _), pytest.raises(CorruptEventError):
        land_binlog(address, lake=str(tmp_path / "lake"), source="s")
    assert {path.name for path in (tmp_path).rglob("*") if path.is_file()} <= {".lock", "state.json"}


def test_no_files_at_all(tmp_path):
    with (
        hostile(source(gtid_mode="OFF", **{"BINARY LOGS": []})) as (address, _),
        pytest.raises(CorruptEventError, match="lists no files"),
    ):
        land_binlog(address, lake=str(tmp_path), source="s")


def test_what_a_server_says_does_not_steer_a_terminal(tmp_path, monkeypatch, capsys):
    words = ESCAPES.encode()
    (tmp_path / "strata.toml").write_text(f'lake = "{tmp_path}/lake"\n[sources.s]\nconnection = "s"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))

    def refuses(peer: Peer) -> None:
        peer.send(error(1045, words))

    def refuses_later(peer: Peer) -> None:
        peer.log_in()
        while peer.receive():
            peer.send(error(1227, words))

    servers = (
        refuses,
        refuses_later,
        lambda peer: peer.send(greeting(plugin=words)),
        source(lambda peer: peer.send(error(1236, words))),
        source(lambda peer: peer.send(error(1236, b"Cannot replicate" + words))),
        source(lambda peer: peer.send(error(1236, b"purged" + words))),
        source(lambda peer: peer.send(error(2000, words))),
        source(gtid_mode=ESCAPES),
    )
    for serve in servers:
        with hostile(serve) as (address, _):
            monkeypatch.setenv("AIRFLOW_CONN_S", address.to_url(""))
            for command in (["land", "--source", "s"], ["snapshot", "--source", "s"], ["status"], ["doctor"]):
                for mode in ([], ["--json"]) if serve is refuses else ([],):
                    assert run([*command, *mode]) != 0
                    out = "".join(capsys.readouterr())
                    lines = [line for line in out.splitlines() if line]
                    assert not [one for one in out if one != "\n" and not one.isprintable()], out
                    assert not any(line.startswith("strata: all is well") for line in lines), out
                    assert "Traceback" not in out


def test_heartbeats_without_end(tmp_path):
    def dump(peer: Peer) -> None:
        peer.send(rotate(b"binlog.000001"))
        peer.send(format_event())
        for at in range(10_000):
            peer.send(event(27, b"binlog.000001", log_pos=at))
            time.sleep(0.02)

    with (
        hostile(source(dump), replace(PATIENT, idle_seconds=0.5)) as (address, _),
        pytest.raises(SourceUnavailableError, match="heartbeats"),
    ):
        land_binlog(address, lake=str(tmp_path), source="s")


def begins(peer: Peer, length: int) -> None:
    """The first 17 MB of an event that says it has so many bytes."""
    peer.send(rotate(b"binlog.000001"))
    peer.send(format_event())
    head = event(2, b"", length=length)
    peer.send(head + bytes((1 << 24) - 1 - len(head)))
    while True:
        peer.send(bytes((1 << 24) - 1))


@pytest.mark.parametrize("length", [0xFFFFFFFF, (1 << 30) + 100])
def test_an_event_without_end(length, tmp_path):
    with (
        hostile(source(lambda peer: begins(peer, length))) as (address, _),
        pytest.raises(CorruptEventError, match="an event of more than"),
    ):
        land_binlog(address, lake=str(tmp_path), source="s")
    assert not list(tmp_path.rglob("*.part"))


def test_an_event_that_would_fill_the_disk(tmp_path):
    with (
        interposed(lambda usage, path: usage(path)._replace(free=500 << 20), (shutil, "disk_usage")),
        hostile(source(lambda peer: begins(peer, 400 << 20))) as (address, _),
        pytest.raises(LakeUnavailableError, match="no space for"),
    ):
        land_binlog(address, lake=str(tmp_path), source="s")
    assert not list(tmp_path.rglob("*.part"))


def test_an_answer_without_end(tmp_path):
    def rows(peer: Peer) -> None:
        peer.result(*[("x" * 200, "y")] * 20_000)

    few = replace(PATIENT, answer_bytes=1 << 20)
    with (
        hostile(source(server_uuid=rows), few) as (address, _),
        pytest.raises(SourceUnavailableError, match="more than"),
    ):
        land_binlog(address, lake=str(tmp_path), source="s")
