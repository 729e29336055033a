"""Multi-part uploads of an S3 store that were begun and left: they cost money, and no listing of objects shows them.
Not here: when they go (`pipeline/housekeep/`), objects (`objects.py`), which Strata writes by one request each; a
checkpoint that deltalake writes may be more.

obstore has no such requests. It signs URLs with the keys that it finds, whatever query the address of a bucket has:
here the address has the query, and the object's path is the value of `x-id`, which S3 ignores.
"""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from msgspec import Struct

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.objects import bucket_options, split_s3

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS: Final = 60
_NAMESPACE: Final = re.compile(r' xmlns="[^"]*"')
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Upload(Struct, frozen=True):
    """An upload that is not complete."""

    key: str
    """Of the object that it was to become."""
    upload_id: str
    begun_at: int
    """Microseconds UTC."""


def unfinished_uploads(url: str) -> list[Upload]:
    """The uploads of objects in a folder and below.

    Args:
        url: Of the folder, `s3://...`.

    Raises:
        LakeUnavailableError: The store refuses it, or does not answer.
    """
    key = split_s3(url)[1]
    query = {"uploads": "", "prefix": f"{key.rstrip('/')}/" if key else ""}
    uploads: list[Upload] = []
    while True:
        page = _answer(url, "GET", query)
        for upload in page.findall("Upload"):
            begun = datetime.fromisoformat(_text(upload, "Initiated")) - _EPOCH
            uploads.append(Upload(_text(upload, "Key"), _text(upload, "UploadId"), begun // timedelta(microseconds=1)))
        if _text(page, "IsTruncated") != "true":
            return uploads
        query |= {"key-marker": _text(page, "NextKeyMarker"), "upload-id-marker": _text(page, "NextUploadIdMarker")}


def abort_upload(url: str, upload: Upload) -> None:
    """Deletes what has arrived of an upload; that it is gone already is no error.

    Args:
        url: Of anything in its bucket.
        upload: The upload.

    Raises:
        LakeUnavailableError: The store refuses it, or does not answer.
    """
    _answer(url, "DELETE", {"uploadId": upload.upload_id}, upload.key)


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(name) or ""


def _answer(url: str, method: str, query: Mapping[str, str], key: str = "") -> ET.Element:
    request = urllib.request.Request(signed_url(url, method, query, key), method=method)  # noqa: S310  the lake's
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  the lake's
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        if method == "DELETE" and error.code == HTTPStatus.NOT_FOUND:
            return ET.Element("Gone")
        raise LakeUnavailableError(f"the store refuses: {error}", file=url) from error
    except OSError as error:
        raise LakeUnavailableError(f"the store does not answer: {error}", file=url) from error
    # The namespace is the same for all, and some imitations have none.
    return ET.fromstring(_NAMESPACE.sub("", text)) if text else ET.Element("Empty")  # noqa: S314  the store's own


def signed_url(url: str, method: str, query: Mapping[str, str], key: str = "") -> str:
    """A URL for one request to the bucket of a URL, or to an object in it; it holds for a minute.

    Raises:
        LakeUnavailableError: The bucket is not found, or there are no keys.
    """
    # Imported here: hardly any command needs it.
    import obstore  # noqa: PLC0415  see above
    from obstore.exceptions import BaseError  # noqa: PLC0415  see above
    from obstore.store import S3Store  # noqa: PLC0415  see above

    bucket = split_s3(url)[0]
    config: Any = bucket_options(bucket)
    region = config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = (
        os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or f"https://s3.{region}.amazonaws.com"
    )
    words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    address = f"{endpoint.rstrip('/')}/{bucket}/{quote(key)}".rstrip("/")
    config |= {"endpoint": f"{address}?{words}&x-id=", "virtual_hosted_style_request": "true"}
    try:
        store = S3Store(bucket, config=config, client_options={"allow_http": endpoint.startswith("http://")})
        return str(obstore.sign(store, method, "-", timedelta(seconds=_SECONDS)))  # type: ignore[call-overload]
    except (BaseError, ValueError) as error:
        raise LakeUnavailableError(f"the request cannot be signed: {error}", file=url) from error
