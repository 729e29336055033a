"""Deletion vectors of Delta tables: which rows of a data file are dead, as files below `_dv/`.
Not here: which rows die (`apply.py`), the log that names the vectors (`log.py`).

The format is that of the Delta protocol ("Deletion Vectors", storage type `u`). A file of Strata has all vectors of one
commit, each with its length before it and its CRC32 after it:

    01 | length (4, big-endian) | vector | CRC32 (4, big-endian) | length | vector | CRC32 | ...
    vector = magic (4, little-endian) | number of halves (8) | for each its key (4) and a portable roaring bitmap
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from pyroaring import BitMap

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import arrow_file_system, lake_errors, write_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FOLDER: Final = "_dv"
"""Never empty: `vacuum(full=True)` of deltalake 1.6 deletes live vectors in the table's root, but ignores folders that
begin with an underscore."""

_MAGIC: Final = 1681511377
_VERSION: Final = b"\x01"
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class StoredVector(Struct, frozen=True):
    """Where a vector is stored."""

    location: str
    """`<folder><UUID in Z85>`."""
    offset: int
    size_bytes: int
    cardinality: int

    @property
    def path(self) -> str:
        """The file, relative to the table."""
        folder, name = self.location[:-20], self.location[-20:]
        file = f"deletion_vector_{uuid.UUID(bytes=_from_z85(name))}.bin"
        return f"{folder}/{file}" if folder else file

    def to_log(self) -> dict[str, Any]:
        """The form in actions of the log."""
        return {
            "storageType": "u",
            "pathOrInlineDv": self.location,
            "offset": self.offset,
            "sizeInBytes": self.size_bytes,
            "cardinality": self.cardinality,
        }

    @classmethod
    def of_log(cls, stored: Mapping[str, Any] | None, url: str) -> StoredVector | None:
        """Reads what `to_log` wrote; None for None.

        Raises:
            DamagedFileError: It is stored in a way that mirrors do not use.
        """
        if not stored or not stored.get("storageType"):
            return None
        if stored["storageType"] != "u":
            raise DamagedFileError("another program wrote a deletion vector into this mirror", file=url)
        return cls(
            stored["pathOrInlineDv"],
            int(stored.get("offset") or 1),
            int(stored["sizeInBytes"]),
            int(stored["cardinality"]),
        )


def write_vectors(url: str, dead: Mapping[str, BitMap], unsynced: list[str] | None = None) -> dict[str, StoredVector]:
    """Writes one file with the vectors of some data files.

    Args:
        url: The table.
        dead: By data file, the numbers of all its dead rows.
        unsynced: Receives the file if it may still be lost in a power failure, for the commit (`log.commit`).

    Returns:
        By data file, where its vector is.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    name = uuid.uuid4()
    location = FOLDER + _to_z85(name.bytes)
    parts, at, stored = [_VERSION], 1, {}
    for path, rows in dead.items():
        vector = _encoded(rows)
        stored[path] = StoredVector(location, at, len(vector), len(rows))
        parts += [len(vector).to_bytes(4, "big"), vector, zlib.crc32(vector).to_bytes(4, "big")]
        at += 8 + len(vector)
    write_file(f"{url}/{FOLDER}/deletion_vector_{name}.bin", *parts, unsynced=unsynced)
    return stored


def read_vector(url: str, vector: StoredVector) -> BitMap:
    """The numbers of the dead rows.

    Raises:
        DamagedFileError: The file is gone or is not what was written.
        LakeUnavailableError: The storage does not answer.
    """
    where = f"{url}/{vector.path}"
    with lake_errors(where):
        files, path = arrow_file_system(where)
        try:
            with files.open_input_file(path) as stream:
                stream.seek(vector.offset)
                content = bytes(stream.read(vector.size_bytes + 8))
        except FileNotFoundError:
            raise DamagedFileError(
                "a deletion vector of the mirror is gone",
                file=where,
                remedy="Restore the file, or dump the table again.",
            ) from None
    body = content[4:-4]
    if len(content) != vector.size_bytes + 8 or zlib.crc32(body) != int.from_bytes(content[-4:], "big"):
        raise DamagedFileError("a deletion vector of the mirror is damaged", file=where)
    return _decoded(body)


def rows_of(dead: BitMap) -> NDArray[np.int64]:
    """The numbers in order."""
    return np.asarray(dead.to_array(), np.int64)


def _encoded(rows: BitMap) -> bytes:
    """A file of Strata has fewer than 2**32 rows: there is only one half."""
    head = _MAGIC.to_bytes(4, "little") + (1).to_bytes(8, "little") + (0).to_bytes(4, "little")
    rows.run_optimize()
    return head + bytes(rows.serialize())


def _decoded(body: bytes) -> BitMap:
    halves = int.from_bytes(body[4:12], "little")
    if int.from_bytes(body[:4], "little") != _MAGIC or halves > 1 or (halves and body[12:16] != b"\0\0\0\0"):
        raise DamagedFileError("a deletion vector of the mirror has another form than ours")
    return BitMap.deserialize(body[16:]) if halves else BitMap()


def _to_z85(raw: bytes) -> str:
    text = ""
    for at in range(0, len(raw), 4):
        number = int.from_bytes(raw[at : at + 4], "big")
        text += "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def _from_z85(text: str) -> bytes:
    raw = b""
    for at in range(0, len(text), 5):
        number = 0
        for character in text[at : at + 5]:
            number = number * 85 + _Z85.index(character)
        raw += number.to_bytes(4, "big")
    return raw
