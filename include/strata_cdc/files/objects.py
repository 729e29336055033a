"""Objects of an S3 store: ranges of bytes, each of the object that was opened and of no other; objects written by one
request.
Not here: files of the lake as a whole (`storage.py`), what is in the bytes (`binlog/bytes/`).

By obstore, because Arrow's file systems cannot ask for an object that has not been replaced (decision 117).
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import Struct
from pyarrow import fs

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.aws_profile import stored_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore.store import S3Store

_SCHEME: Final = "s3://"
_DEFAULT_REGION: Final = "us-east-1"
_ATTEMPTS: Final = 10
_RETRY_SECONDS: Final = 120


class S3Object(Struct, frozen=True):
    """An object as it was when it was opened."""

    url: str
    size: int
    """Bytes."""
    etag: str | None
    store: Any
    key: str

    @classmethod
    def open(cls, url: str, first: int) -> tuple[Self, memoryview]:
        """An object and its first bytes, at most `first`, by one request.

        Raises:
            FileNotFoundError: There is no such object.
            LakeUnavailableError: The store does not answer.
        """
        store, key = s3_store(url)
        with _store_errors(url):
            result = store.get(key, options={"range": (0, first)})
            head = memoryview(result.bytes())
        return cls(url, result.meta["size"], result.meta["e_tag"], store, key), head

    def read_range(self, begin: int, end: int) -> memoryview:
        """The bytes from `begin` to `end`; several threads may read at once.

        Raises:
            FileNotFoundError: The object was deleted.
            LakeUnavailableError: The object was replaced, or the store does not answer.
        """
        options: dict[str, Any] = {"range": (begin, end)}
        if self.etag is not None:
            options["if_match"] = self.etag
        with _store_errors(self.url):
            content = memoryview(self.store.get(self.key, options=options).bytes())
        if len(content) != end - begin:
            raise LakeUnavailableError(f"the store gave {len(content)} of {end - begin} bytes", file=self.url)
        return content


def write_object(url: str, *content: Any) -> str | None:
    """Writes an object by one request, so that nothing is left of it if this process dies; returns its ETag.

    Args:
        url: Of the object; one that exists is replaced.
        content: Bytes or objects with a buffer, written one after the other; at most 5 GB.

    Raises:
        LakeUnavailableError: The store refuses it, or does not answer.
    """
    store, key = s3_store(url)
    with _store_errors(url):
        return store.put(key, _joined(content), use_multipart=False)["e_tag"]


def create_object(url: str, content: Any) -> bool:
    """Writes an object unless there is one (If-None-Match); whether it was written.

    Args:
        url: Of the object.
        content: Bytes or an object with a buffer, at most 5 GB.

    Raises:
        LakeUnavailableError: The store refuses it, or does not answer.
    """
    # Imported here: see `_bucket`.
    from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415  see above

    store, key = s3_store(url)
    with _store_errors(url), suppress(AlreadyExistsError):
        store.put(key, _joined((content,)), mode="create", use_multipart=False)
        return True
    return False


def _joined(content: Sequence[Any]) -> memoryview:
    return memoryview(content[0] if len(content) == 1 else b"".join(content)).cast("B")


def current_etag(url: str) -> str | None:
    """The ETag that an object has now.

    Raises:
        FileNotFoundError: There is no such object.
        LakeUnavailableError: The store does not answer.
    """
    store, key = s3_store(url)
    with _store_errors(url):
        return store.head(key)["e_tag"]


def list_objects(url: str, first: str = "") -> dict[str, tuple[int, int]]:
    """Size (bytes) and time of the last change (nanoseconds) of the objects directly in a folder, by name.

    Args:
        url: Of the folder.
        first: Objects whose names sort before this one are not listed, but those of folders below are then listed on
            the way; empty: only the folder's own are.
    """
    store, key = s3_store(url)
    prefix = f"{key.rstrip('/')}/"
    # What it is given is not listed itself: a name is shorter by its last character, and sorts before it.
    stamps: dict[str, tuple[int, int]] = {}
    with _store_errors(url):
        own = [store.list_with_delimiter(prefix)["objects"]] if not first else []
        for batch in own or store.list(prefix, offset=f"{prefix}{first[:-1]}"):
            for entry in batch:
                name = entry["path"].removeprefix(prefix)
                if "/" not in name and name >= first:
                    # S3 keeps whole seconds, some imitations more.
                    stamps[name] = entry["size"], int(entry["last_modified"].timestamp()) * 10**9
    return stamps


def is_s3(url: str) -> bool:
    """Whether a URL names an object that `S3Object` opens: one whose address has no login and no options."""
    return url.startswith(_SCHEME) and "?" not in url and "@" not in url


def object_store_options(url: str) -> dict[str, str] | None:
    """The options of delta-rs for the storage of a URL, besides those that it reads from the environment; None if it
    needs none.

    delta-rs refuses an endpoint without TLS unless it is allowed; a user who sets one in `AWS_ENDPOINT_URL` has
    allowed it.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not url.startswith("s3://") or not endpoint.lower().startswith("http://"):
        return None
    return {"allow_http": "true", "aws_endpoint": endpoint}


def s3_store(url: str) -> tuple[S3Store, str]:
    """The bucket of a URL, and the key in it.

    Raises:
        LakeUnavailableError: The bucket is not found.
    """
    bucket, key = split_s3(url)
    given = object_store_options(url) or {}
    # A process that was forked needs connections of its own.
    return _bucket(bucket, given.get("aws_endpoint"), os.getpid()), key


def split_s3(url: str) -> tuple[str, str]:
    """Bucket and key of a URL."""
    bucket, _, key = url.removeprefix(_SCHEME).partition("/")
    return bucket, key


def bucket_options(bucket: str) -> dict[str, Any]:
    """Keys and region for obstore, besides those that it finds itself.

    Raises:
        LakeUnavailableError: The bucket is not found.
    """
    config: dict[str, Any] = dict(stored_keys())
    if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
        has_endpoint = object_store_options(f"{_SCHEME}{bucket}") is not None
        config["region"] = _DEFAULT_REGION if has_endpoint else _region_of(bucket)
    return config


@lru_cache(maxsize=8)
def _bucket(bucket: str, endpoint: str | None, _process: int) -> S3Store:
    # Imported here: most commands read no object.
    from obstore.store import S3Store  # noqa: PLC0415  see above

    config: Any = bucket_options(bucket)
    if endpoint is not None:
        config["endpoint"] = endpoint
    return S3Store(
        bucket,
        config=config,
        client_options={"allow_http": endpoint is not None, "timeout": timedelta(seconds=60)},
        retry_config={"max_retries": _ATTEMPTS, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
    )


def _region_of(bucket: str) -> str:
    try:
        return str(fs.resolve_s3_region(bucket))
    except OSError as error:
        raise LakeUnavailableError(f"the bucket is not found: {error}", file=f"{_SCHEME}{bucket}") from error


class _store_errors:  # noqa: N801  used as a function, like `lake_errors`
    """Turns errors of the object store in a `with` block into LakeUnavailableError."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        from obstore.exceptions import BaseError, PreconditionError  # noqa: PLC0415  see `_bucket`

        if isinstance(error, PreconditionError):
            raise LakeUnavailableError(
                "the object was replaced while it was read",
                file=self._url,
                remedy="Run the step again: it reads the new object from its beginning.",
            ) from error
        if isinstance(error, BaseError):
            raise LakeUnavailableError(f"the store refuses: {error}", file=self._url) from error
