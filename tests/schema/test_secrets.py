"""No password of a statement is stored or shown, whatever the statement and its quotes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.cli.main import run
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.secrets import cover_secrets, mask_secrets
from tests.binlog.binlogs import Binlog

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sEcR3t"
STATEMENTS = (
    "CREATE TABLE d.f (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:sEcR3t@h:3306/d/t'",
    "CREATE TABLE d.f (a INT) ENGINE=FEDERATED CONNECTION 'mysql://u:p@sEcR3t@h/d/t' COMMENT='kept'",
    'CREATE TABLE d.f (a INT) ENGINE=FEDERATED CONNECTION/**/=/* x */"mysql://u:sEcR3t@h/d/t"',
    "CREATE TABLE d.f (a INT) /*!50000 ENGINE=FEDERATED CONNECTION='mysql://u:sEcR3t@h/d/t' */",
    "ALTER TABLE d.f ADD b INT, connection = 'it''s sEcR3t'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', HOST 'h', PASSWORD 'sEcR3t', PORT 1)",
    'ALTER SERVER s OPTIONS (PASSWORD\t"sEcR3t")',
    "CREATE USER u IDENTIFIED BY 'sEcR3t' PASSWORD EXPIRE",
    "CREATE USER u IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$x\\'sEcR3t' REQUIRE NONE",
    "CREATE USER u IDENTIFIED WITH mysql_native_password BY 'a\\\\' 'sEcR3t', w IDENTIFIED BY N'sEcR3t'",
    "ALTER USER u IDENTIFIED BY 'x' REPLACE 'sEcR3t' RETAIN CURRENT PASSWORD",
    "ALTER USER u IDENTIFIED /* a */ BY -- b\n 'sEcR3t'",
    "GRANT ALL ON *.* TO u IDENTIFIED BY PASSWORD 'sEcR3t' WITH GRANT OPTION",
    "SET PASSWORD FOR 'u'@'h' = 'sEcR3t'",
    "SET PASSWORD = PASSWORD('sEcR3t')",
    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='h', SOURCE_PASSWORD='sEcR3t', SOURCE_PORT=1",
    "CHANGE MASTER TO MASTER_USER='u', MASTER_PASSWORD = _utf8mb4'sEcR3t'",
    "START REPLICA USER='u' PASSWORD='sEcR3t'",
    "START GROUP_REPLICATION USER='u', PASSWORD='sEcR3t'",
    "UPDATE users SET password = 'sEcR3t', name = 'n'",
    "UPDATE users SET `password`=SHA2('sEcR3t', 256)",
    'CREATE TABLE d.t (a INT) ENGINE_ATTRIBUTE=\'{"password": "sEcR3t", "n": 1}\'',
    "INSERT INTO d.t VALUES ('see https://u:sEcR3t@h/x')",
    "CREATE USER u IDENTIFIED BY 'sEcR3t",
    "CREATE SERVER s FOREIGN DATA WRAPPER m OPTIONS (HOST 'c:\\', PASSWORD 'sEcR3t')",
    "CREATE SERVER s /* it's */ FOREIGN DATA WRAPPER m OPTIONS (HOST 'it''s', PASSWORD'sEcR3t')",
    "CREATE TABLE d.f (a INT) CONNECTION='mysql://u:sEcR3t",
)
PLAIN = (
    "CREATE TABLE d.t (a INT COMMENT 'the connection', b INT COMMENT 'a password', `it's password` ENUM('x','y'))",
    "CREATE TABLE d.t (id INT PRIMARY KEY, password VARCHAR(20) NOT NULL DEFAULT 'kept' COMMENT 'kept')",
    "ALTER TABLE d.t ADD connection VARCHAR(20) DEFAULT 'kept', RENAME COLUMN a TO identified",
    "CREATE TABLE d.t (a ENUM('password', 'secret', 'kept'), replace_with TEXT) COMMENT='a://b, c@d'",
    "CREATE VIEW v AS SELECT REPLACE(a, 'kept', 'kept') FROM t",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_password_is_masked(statement):
    for text in (statement, statement.lower(), statement if "--" in statement else statement.replace(" ", "\n")):
        masked = mask_secrets(text)
        assert SECRET.lower() not in masked.lower()
        assert "***" in masked
        assert mask_secrets(masked) == masked
        covered = cover_secrets(text)
        assert SECRET.lower() not in covered.lower()
        assert len(covered) == len(text)
        assert SECRET not in as_one_looks_at(text)


@pytest.mark.parametrize("statement", PLAIN)
def test_what_is_no_password_stays(statement):
    assert mask_secrets(statement) == cover_secrets(statement) == statement


@given(st.text(alphabet="abc\\'\"` *@:/%;-#\n", max_size=12), st.sampled_from("'\""), st.sampled_from(STATEMENTS[5:8]))
def test_any_password_in_quotes(password, quote, statement):
    written = password.replace("\\", "\\\\").replace(quote, quote * 2)
    first = statement.index(SECRET) - 1
    text = f"{statement[:first]}{quote}{written}<{SECRET}>{quote}{statement[first + len(SECRET) + 2 :]}"
    assert SECRET not in mask_secrets(text)
    assert mask_secrets(text).endswith(statement[first + len(SECRET) + 2 :])


def test_hostile_text_takes_no_time():
    began = time.monotonic()
    for text in (
        "IDENTIFIED /*" * 20_000,
        "CONNECTION " * 20_000,
        "password" * 20_000,
        "://a:" * 20_000,
        "'" * 100_001,
    ):
        mask_secrets(text)
    assert time.monotonic() - began < 5


def test_nothing_of_it_is_stored_or_shown(tmp_path: Path, capsys):
    binlog = Binlog()
    binlog.previous()
    binlog.gtid(1)
    binlog.query("CREATE TABLE d.t (a INT)")
    for number, statement in enumerate(STATEMENTS, 2):
        binlog.gtid(number)
        binlog.query(statement.replace("d.f", f"d.f{number}"))
    (tmp_path / "binlog.000001").write_bytes(binlog.data)
    store = f"sqlite:///{tmp_path}/store.db"
    file = str(tmp_path / "binlog.000001")
    for mode in ([], ["--json"]):
        run(["track", file, "--source", "s", "--store", store, *mode])
        for command in (["history"], ["show"], ["history", "--format", "jsonl"], ["show", "--format", "jsonl"]):
            run(["schema", *command, "--source", "s", "--store", store, *mode])
        run(["decode", file, "--out", "-", *mode])
    said = "".join(capsys.readouterr())
    assert SECRET not in said
    assert "FEDERATED" in said
    for path in tmp_path.glob("store.db*"):
        assert SECRET.encode() not in path.read_bytes()
    assert json.dumps(said)
