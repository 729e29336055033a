from __future__ import annotations

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.format import parse_format_description
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.errors import (
    ChecksumError,
    CorruptEventError,
    EncryptedBinlogError,
    NotABinlogError,
    StrataError,
    TruncatedEventError,
    UnsupportedEventError,
    Usage,
)
from strata_cdc.flavour import Flavour, Vendor
from tests.binlog.binlogs import LENGTHS, Binlog


def opened(tmp_path, data: bytes, name: str = "binlog.000001"):
    path = tmp_path / name
    path.write_bytes(data)
    with open_binlog(path) as binlog:
        return binlog


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NotABinlogError),
        (b"\xfeb", NotABinlogError),
        (b"ELF\0 and more", NotABinlogError),
        (b"\xfdbin" + bytes(600), EncryptedBinlogError),
        (b"\xfebin", TruncatedEventError),
        (b"\xfebin" + bytes(18), TruncatedEventError),
        (b"\xfebin" + bytes(4) + b"\1" + bytes(60), UnsupportedEventError),
        (b"\xfebin" + bytes(4) + b"\2" + bytes(60), CorruptEventError),
    ],
)
def test_what_is_no_binlog_is_refused(tmp_path, data, error):
    with pytest.raises(error) as caught:
        opened(tmp_path, data)
    assert type(caught.value) is error
    assert caught.value.file.endswith("binlog.000001")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(Usage, match="no such file"), open_binlog(tmp_path / "binlog.000009"):
        pass


def test_names(tmp_path):
    data = bytes(Binlog().data)
    assert opened(tmp_path, data).name == "binlog.000001"
    name = str(SegmentName(7, "mysql-bin.000042", 157))
    binlog = opened(tmp_path, data, name)
    assert (binlog.name, binlog.segment.offset) == ("mysql-bin.000042", 157)


def test_a_buffer_may_outlive_the_block(tmp_path):
    data = bytes(Binlog().data)
    assert opened(tmp_path, data).buffer.tobytes() == data


def test_urls_open_like_paths(tmp_path):
    path = tmp_path / "binlog.000001"
    path.write_bytes(Binlog().data)
    with open_binlog(path.as_uri()) as binlog:
        assert binlog.buffer.tobytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("version", "checksum", "expected"),
    [
        ("5.0.96", False, False),
        ("5.5.62", False, False),
        ("5.6.0", False, False),
        ("5.6.1", True, True),
        ("8.4.3", False, False),
    ],
)
def test_formats_of_all_ages(tmp_path, version, checksum, expected):
    form = opened(tmp_path, bytes(Binlog(version=version, checksum=checksum, lengths=LENGTHS[:27]).data)).format
    assert form.has_checksum is expected
    assert form.header_lengths == LENGTHS[:27]
    assert form.server_version == version


def test_every_truncation_and_change_of_the_first_event_is_an_error_of_ours(tmp_path):
    data = bytes(Binlog().data)
    for size in range(len(data)):
        with pytest.raises(StrataError):
            opened(tmp_path, data[:size])
    for at in range(4, len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        with pytest.raises(StrataError):
            opened(tmp_path, bytes(changed))


def test_a_changed_first_event_is_found_by_its_checksum(tmp_path):
    changed = bytearray(Binlog().data)
    changed[80] ^= 1
    with pytest.raises(ChecksumError):
        opened(tmp_path, bytes(changed))


def test_the_flag_of_a_file_in_use_is_outside_of_the_checksum(tmp_path):
    data = Binlog().data
    data[4 + 17] |= 1
    assert opened(tmp_path, bytes(data)).format.has_checksum


def test_mariadb_before_10_6_is_refused():
    body = bytearray(bytes(Binlog(version="8.0.0").data[23:]))
    body[2:52] = b"10.6.0-MariaDB-log".ljust(50, b"\0")
    assert parse_format_description(bytes(body)).flavour.vendor == Vendor.MARIADB
    body[2:52] = b"10.5.29-MariaDB-log".ljust(50, b"\0")
    with pytest.raises(UnsupportedEventError, match=r"MariaDB 10\.5\.29") as refused:
        parse_format_description(bytes(body))
    assert "from 10.6.0 on" in refused.value.remedy


@pytest.mark.parametrize(
    ("text", "number"), [("9.7.4-2", 90704), ("8.0.36", 80036), ("5.6.1-m5-log", 50601), ("8", 80000), ("", 0)]
)
def test_version_numbers(text, number):
    assert Flavour.parse(text).number == number
