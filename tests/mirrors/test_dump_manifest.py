"""The stored form of a dump: every number that was ever written opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_cdc.errors import DamagedFileError
from strata_cdc.mirrors.dump.manifest import FORMAT, DumpedChunk, Manifest, ReadBounds, earliest, read_manifest
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.model.definition import TableName
from tests.tables.changes import definition

RECORDED = Path(__file__).with_name("recorded")
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ORDERS = definition({"id": "int NOT NULL", "name": "varchar(20)"})


def test_every_number_opens() -> None:
    numbers = set()
    for path in sorted(RECORDED.glob("dump-manifest-*.json")):
        found = read_manifest(path.read_bytes(), str(path))
        numbers.add(int(path.stem.rpartition("-")[2]))
        assert found.name == TableName("shop", "orders")
        assert found.read_definition() == ORDERS
        assert [(chunk.rows, chunk.border) for chunk in found.chunks] == [(2, ("2",)), (1, ())]
        assert earliest(found.reads()) == [GtidSet.parse(f"{UUID}:1-5")]
        assert str(max(one.end_position for one in found.reads())) == "binlog.000010:4"
        assert found.is_read
    assert numbers == set(range(1, FORMAT + 1)), (
        "record what this version writes: `python -m tests.mirrors.test_dump_manifest`"
    )


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"format": 1}'])
def test_what_is_no_manifest_is_told(content: bytes) -> None:
    with pytest.raises(DamagedFileError, match="cannot be read"):
        read_manifest(content, "here")


def test_a_newer_number_is_told() -> None:
    content = made().to_json().replace(f'"format":{FORMAT}'.encode(), b'"format":999')
    with pytest.raises(DamagedFileError, match="format 999"):
        read_manifest(content, "here")


def test_only_the_same_dump_is_continued() -> None:
    begun = Manifest.begin("s", TableName("shop", "orders"), 3, ORDERS, UUID)
    assert made().goes_on_from(begun)
    for other in (
        Manifest.begin("s", TableName("shop", "orders"), 4, ORDERS, UUID),
        Manifest.begin("s", TableName("shop", "orders"), 3, definition({"id": "int NOT NULL"}), UUID),
        Manifest.begin("s", TableName("shop", "orders"), 3, ORDERS, "another"),
    ):
        assert not made().goes_on_from(other)


def test_chunks_without_texts_are_read_again() -> None:
    begun = Manifest.begin("s", TableName("shop", "orders"), 3, ORDERS, UUID)
    old = RECORDED / "dump-manifest-1.json"
    assert not read_manifest(old.read_bytes(), str(old)).goes_on_from(begun)
    new = RECORDED / f"dump-manifest-{FORMAT}.json"
    assert read_manifest(new.read_bytes(), str(new)).goes_on_from(begun)


def made() -> Manifest:
    chunks = (
        DumpedChunk("chunk-000001.arrow", 2, 80, ReadBounds(f"{UUID}:1-5", "binlog.000009:1934"), ("2",)),
        DumpedChunk("chunk-000002.arrow", 1, 40, ReadBounds(f"{UUID}:1-9", "binlog.000010:4"), invalid={"born": 1}),
    )
    begun = Manifest.begin("s", TableName("shop", "orders"), 3, ORDERS, UUID)
    return begun.with_chunk(chunks[0], is_last=False).with_chunk(chunks[1], is_last=True)


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"dump-manifest-{FORMAT}.json").write_bytes(made().to_json())
