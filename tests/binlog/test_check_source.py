from __future__ import annotations

import pytest

from strata_cdc.flavour import Flavour
from strata_cdc.ops.doctor.check_grants import judge_backup_admin, judge_grants
from strata_cdc.ops.doctor.check_settings import judge_settings
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.schema.live.grants import Grants

GOOD = {
    "version": "9.7.4",
    "log_bin": "ON",
    "server_id": "1",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_value_options": "",
    "binlog_checksum": "CRC32",
    "binlog_encryption": "OFF",
    "binlog_expire_logs_seconds": "2592000",
    "binlog_expire_logs_auto_purge": "ON",
    "log_replica_updates": "ON",
    "is_replica": "OFF",
}


def found(**changes: str) -> dict[str, FindingSeverity]:
    findings = judge_settings({**GOOD, **changes})
    return {finding.name: finding.severity for finding in findings if finding.severity is not FindingSeverity.OK}


def test_the_servers_defaults_are_fine():
    assert found() == {}


@pytest.mark.parametrize(
    ("changes", "name", "severity"),
    [
        ({"log_bin": "OFF"}, "log_bin", FindingSeverity.ERROR),
        ({"server_id": "0"}, "server_id", FindingSeverity.ERROR),
        ({"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}, "gtid_mode", FindingSeverity.WARNING),
        ({"gtid_mode": "ON_PERMISSIVE"}, "gtid_mode", FindingSeverity.WARNING),
        ({"enforce_gtid_consistency": "WARN"}, "enforce_gtid_consistency", FindingSeverity.ERROR),
        ({"binlog_format": "MIXED"}, "binlog_format", FindingSeverity.ERROR),
        ({"binlog_row_image": "MINIMAL"}, "binlog_row_image", FindingSeverity.WARNING),
        ({"binlog_checksum": "NONE"}, "binlog_checksum", FindingSeverity.WARNING),
        ({"binlog_expire_logs_seconds": "3600"}, "binlog_expire_logs_seconds", FindingSeverity.WARNING),
        ({"is_replica": "ON", "log_replica_updates": "OFF"}, "log_replica_updates", FindingSeverity.ERROR),
        ({"binlog_ignore_db": "logs"}, "binlog filters", FindingSeverity.WARNING),
        ({"innodb_native_foreign_keys": "ON"}, "innodb_native_foreign_keys", FindingSeverity.WARNING),
        ({"version": "5.5.62"}, "version", FindingSeverity.ERROR),
    ],
)
def test_one_thing_that_is_wrong(changes, name, severity):
    assert found(**changes) == {name: severity}


def test_partial_json_needs_full_images():
    assert found(binlog_row_value_options="PARTIAL_JSON") == {}
    both = found(binlog_row_value_options="PARTIAL_JSON", binlog_row_image="MINIMAL")
    assert both == {"binlog_row_value_options": FindingSeverity.ERROR, "binlog_row_image": FindingSeverity.WARNING}


def test_what_costs_nothing():
    assert found(binlog_encryption="ON", binlog_expire_logs_seconds="0") == {}
    assert found(binlog_expire_logs_seconds="60", binlog_expire_logs_auto_purge="OFF") == {}


def test_an_old_server_has_fewer_variables():
    old = {"version": "5.6.51-log", "log_bin": "ON", "server_id": "7", "gtid_mode": "ON", "expire_logs_days": "10"}
    old |= {"enforce_gtid_consistency": "ON", "binlog_format": "ROW"}
    assert all(finding.severity is FindingSeverity.OK for finding in judge_settings(old))


def test_the_steps_to_gtids_start_where_the_server_is():
    (finding,) = (one for one in judge_settings({**GOOD, "gtid_mode": "OFF_PERMISSIVE"}) if one.name == "gtid_mode")
    assert "gtid_mode = ON_PERMISSIVE; SET PERSIST gtid_mode = ON;" in finding.remedy


def missing(*lines: str, store: str | None = "strata") -> set[str]:
    findings = judge_grants(Grants.parse(lines), "'u'@'%'", store)
    return {finding.name for finding in findings if finding.severity is FindingSeverity.ERROR}


ALL_OF_IT = {"REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT", "store grants"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["GRANT USAGE ON *.* TO `u`@`%`"], ALL_OF_IT),
        (["GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"], set()),
        (["GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`"], {"store grants"}),
        (
            [
                "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`",
                "GRANT ALL PRIVILEGES ON `strata`.* TO `u`@`%`",
                "GRANT `role`@`%` TO `u`@`%`",
            ],
            set(),
        ),
        (["GRANT SELECT (`a`, `b`), INSERT ON `d`.`t` TO `u`@`%`"], ALL_OF_IT),
        (["GRANT SELECT ON `d`.* TO `u`@`%`"], ALL_OF_IT - {"SELECT"}),
        (["GRANT ALL PRIVILEGES ON `str%`.* TO `u`@`%`"], ALL_OF_IT - {"SELECT", "store grants"}),
        (["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`", "REVOKE INSERT ON `strata`.* FROM `u`@`%`"], {"store grants"}),
    ],
)
def test_grants(lines, expected):
    assert missing(*lines) == expected


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`", FindingSeverity.ERROR),
        ("GRANT AUDIT_ADMIN,BACKUP_ADMIN ON *.* TO `u`@`%`", FindingSeverity.OK),
        ("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION", FindingSeverity.OK),
    ],
)
def test_without_gtids_a_snapshot_needs_one_more(line, severity):
    assert judge_backup_admin(Grants.parse([line]), "'u'@'%'", Flavour.parse("8.0.1")).severity is severity


@pytest.mark.parametrize("version", ["5.6.51", "5.7.44", "8.0.40"])
def test_no_mend_has_what_the_server_does_not_know(version):
    wrong = {
        "version": version,
        "server_id": "0",
        "gtid_mode": "OFF",
        "enforce_gtid_consistency": "OFF",
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_checksum": "NONE",
        "log_bin": "ON",
    }
    age = {"binlog_expire_logs_seconds": "60"} if version.startswith("8") else {"expire_logs_days": "0.1"}
    mends = {one.name: one.remedy for one in judge_settings({**wrong, **age}) if one.remedy}
    assert len(mends) == 6
    is_new = version.startswith("8")
    assert all(("SET PERSIST" in mend) is is_new for mend in mends.values())
    # GTIDs are switched on while the server runs since 5.7.6.
    assert ("restart it" in mends["gtid_mode"]) is version.startswith("5.6")
    assert ("expire_logs_days" in mends["binlog_expire_logs_seconds"]) is not is_new
    backup = judge_backup_admin(Grants(), "'u'@'%'", Flavour.parse(version))
    assert ("GRANT" in backup.remedy) is is_new


def test_a_partial_revoke_is_said():
    lines = ["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`", "REVOKE SELECT ON `a``secret`.* FROM `u`@`%`"]
    (finding,) = (one for one in judge_grants(Grants.parse(lines), "'u'@'%'", "strata") if one.name == "SELECT")
    assert finding.severity is FindingSeverity.WARNING
    assert "all databases but a`secret" in finding.what
    assert finding.remedy == "GRANT SELECT ON `a``secret`.* TO 'u'@'%';"


def test_a_store_elsewhere_needs_no_grants_here():
    line = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`"
    assert missing(line, store=None) == set()


def test_every_finding_that_stands_in_the_way_has_a_mend():
    findings = judge_grants(Grants(), "'u'@'%'", "strata")
    assert all(finding.remedy and "TO 'u'@'%'" in finding.remedy for finding in findings)
