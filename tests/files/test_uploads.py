"""Multi-part uploads that were begun and left: found, ended, and nothing else; requests are signed as AWS says."""

from __future__ import annotations

import hashlib
import hmac
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4

import pytest

from strata_cdc.clock import now_micros
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import read_file, write_file
from strata_cdc.files.uploads import abort_upload, signed_url, unfinished_uploads
from strata_cdc.ops.doctor.check_lake import check_uploads
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.pipeline.housekeep.left_uploads import WEEK, upload_steps
from tests.pipeline.owed_world import World
from tests.s3_server import BUCKET

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
BEGUN = 1_289_422_113_000_000
"""When all uploads have begun that the server shows."""


@pytest.fixture
def endpoint(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return s3_environment["AWS_ENDPOINT_URL"]


def begin(endpoint: str, key: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}/{quote(key)}?uploads", method="POST")).close()


def test_those_of_a_folder_are_found_and_end(endpoint: str) -> None:
    folder = uuid4().hex
    url = f"s3://{BUCKET}/{folder}"
    keys = [f"{folder}/a b+c/x=1.parquet", f"{folder}/y.parquet"]
    for key in (*keys, f"{folder}-other/z"):
        begin(endpoint, key)
    write_file(f"{url}/y.parquet", b"done")
    found = unfinished_uploads(url)
    assert sorted(upload.key for upload in found) == keys
    assert {upload.begun_at for upload in found} == {BEGUN}
    for upload in (*found, *found):
        abort_upload(url, upload)
    assert unfinished_uploads(url) == []
    assert len(unfinished_uploads(f"{url}-other")) == 1
    assert read_file(f"{url}/y.parquet") == b"done"


def test_housekeeping_ends_those_that_are_a_week_old(endpoint: str, tmp_path: Path) -> None:
    world = World(tmp_path, lake=f"s3://{BUCKET}/{uuid4().hex}")
    prefix = world.lake.removeprefix(f"s3://{BUCKET}/")
    begin(endpoint, f"{prefix}/changes/s/d/a/_delta_log/00000000000000000100.checkpoint.parquet")
    begin(endpoint, f"{prefix}/changes/other/d/a/x")
    assert list(upload_steps(world.source, now=BEGUN + WEEK)) == []
    [step] = upload_steps(world.source, now=BEGUN + WEEK + 1)
    assert step.line == "ended 1 upload that were begun and left"
    assert list(upload_steps(world.source, now=now_micros())) == []
    assert [upload.key for upload in unfinished_uploads(world.lake)] == [f"{prefix}/changes/other/d/a/x"]


def test_the_doctor_says_what_there_is(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = f"s3://{BUCKET}/{uuid4().hex}"
    begin(endpoint, f"{lake.removeprefix(f's3://{BUCKET}/')}/x")
    [found] = check_uploads(lake)
    assert (found.severity, found.what.partition(": ")[2][:24]) == (FindingSeverity.OK, "1 upload not finished; h")
    assert list(check_uploads("/local/lake")) == []
    [found] = check_uploads("s3://no-such-bucket/x")
    assert found.severity is FindingSeverity.WARNING
    assert "AbortIncompleteMultipartUpload" in (found.remedy or "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(LakeUnavailableError, match="does not answer"):
        unfinished_uploads(lake)


@pytest.mark.parametrize("key", ["", "a b/c+d=e~f.parquet"])
def test_a_url_is_signed_as_aws_says(endpoint: str, key: str) -> None:
    """By the description of Signature Version 4, with nothing of what has made it."""
    query = {"uploads": "", "prefix": "a/b c+d=ü/", "key-marker": "x&y"}
    url = signed_url(f"s3://{BUCKET}/lake", "GET", query, key)
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    assert {name: given[name] for name in query} == query
    signature = given.pop("X-Amz-Signature")
    access, date, region, service, end = given["X-Amz-Credential"].split("/")
    assert (access, service, end) == ("strata", "s3", "aws4_request")
    canonical = "&".join(f"{quote(name, safe='-_.~')}={quote(given[name], safe='-_.~')}" for name in sorted(given))
    request = f"GET\n{parts.path}\n{canonical}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    scope = f"{date}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = b"AWS4sesame"
    for part in (date, region, "s3", "aws4_request"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    assert hmac.new(secret, text.encode(), "sha256").hexdigest() == signature
