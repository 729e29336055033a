from __future__ import annotations

import subprocess
import sys

import pytest

from strata_cdc.binlog.bytes.segment import SegmentFile, SegmentName
from strata_cdc.binlog.protocol.connection import ServerAddress, TlsMode
from strata_cdc.errors import AlreadyRunningError, LakeUnavailableError, SettingsError
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import Folder


def test_names_sort_in_stream_order():
    names = [
        SegmentName(9, "binlog.999999", 4),
        SegmentName(10, "binlog.1000000", 1 << 33),
        SegmentName(11, "a-b.1", 0),
    ]
    assert sorted(str(name) for name in names) == [str(name) for name in names]
    assert [SegmentName.parse(str(name)) for name in names] == names


@pytest.mark.parametrize("name", ["binlog.000001", "1-binlog.000001-4.binlog", "", ".lock"])
def test_other_names_are_no_segments(name):
    assert SegmentName.parse(name) is None


@pytest.mark.parametrize("form", [str, lambda path: path.as_uri()], ids=["path", "url"])
def test_a_segment_is_there_whole_or_not_at_all(tmp_path, form):
    folder = Folder.open(form(tmp_path / "landing"))
    name = str(SegmentName(1, "binlog.000001", 4))
    file = SegmentFile(folder, b"head")
    file.append(b"0123456789")
    assert folder.names() == []
    assert file.view().tobytes() == b"head0123456789"
    assert file.read_from(9) == b"56789"
    file.cut(9)
    file.append(b"x")
    file.publish(name)
    file.discard()
    assert folder.names() == [name]
    assert folder.read_file(name) == b"head01234x"


def test_a_discarded_segment_leaves_nothing(tmp_path):
    folder = Folder.open(str(tmp_path / "landing"))
    SegmentFile(folder, b"head").discard()
    assert list((tmp_path / "landing").iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeUnavailableError, match="cannot be written"):
        SegmentFile(Folder.open(str(tmp_path / "file" / "landing")), b"head")


HOLDER = """
import sys
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import Folder
with hold_folder(Folder.open(sys.argv[1]), "landing"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_goes_with_its_owner_however_that_ends(tmp_path):
    folder = Folder.open(str(tmp_path / "landing"))
    command = [sys.executable, "-c", HOLDER, folder.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunningError, match=f"process {holder.pid} on"), hold_folder(folder, "landing"):
            pass
        holder.kill()
        holder.wait()
    with hold_folder(folder, "landing"), pytest.raises(AlreadyRunningError), hold_folder(folder, "landing"):
        pass


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mysql://h/", ServerAddress("h")),
        ("mysql+pymysql://u:p%40%2F@h:3307/d", ServerAddress("h", 3307, "u", "p@/", "d")),
        ("mysql://u@h/?ssl_mode=required", ServerAddress("h", user="u", tls=TlsMode.REQUIRED)),
        ("mysql://u@h/?ssl_ca=/ca.pem", ServerAddress("h", user="u", tls=TlsMode.VERIFY_CA, tls_ca="/ca.pem")),
    ],
)
def test_urls_of_servers(url, address):
    assert ServerAddress.from_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@h/",
        "mysql://u:secret@:3306/",
        "mysql://u:secret@h:port/",
        "mysql://u:secret@h/?ssl_mode=x",
    ],
)
def test_other_urls_are_refused_without_their_password(url):
    with pytest.raises(SettingsError) as caught:
        ServerAddress.from_url(url)
    assert "secret" not in str(caught.value)


def test_no_password_in_a_repr():
    assert "secret" not in repr(ServerAddress.from_url("mysql://u:secret@h/"))
    assert "secret" not in str(ServerAddress.from_url("mysql://u:secret@h/"))
