"""A decoder of binlogs in plain Python, cell by cell, slow and simple: to hold beside the fast one.

It shares no code with `strata`, and reads what the tests' servers write: MySQL 5.7 and later, uncompressed.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from decimal import Decimal
from typing import Any

ONE_BYTE = {4, 5, 252, 255, 245, 242, 17, 18, 19}
TWO_BYTES = {15, 253, 16}
NUMERIC = {1, 2, 3, 8, 9, 246, 4, 5, 13}
CHARACTER = {254, 253, 15, 252, 242}
BINARY_COLLATION = 63
LATIN1_COLLATIONS = {5, 8, 15, 31, 47, 48, 49, 94}


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise ValueError("too short")
        self.at += size
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        first = self.number(1)
        return first if first < 251 else self.number({252: 2, 253: 3, 254: 8}[first])

    def bits(self, count: int) -> list[bool]:
        data = self.take((count + 7) // 8)
        return [bool(data[k // 8] >> k % 8 & 1) for k in range(count)]

    @property
    def left(self) -> int:
        return len(self.data) - self.at


def decode(file: bytes) -> list[dict[str, Any]]:
    """All row changes of a file, columns called `@1`, `@2`, ...; in the form of JSON lines."""
    assert file[:4] == b"\xfebin"
    at, seq, row, gtid = 4, 0, 0, None
    checksum = 4
    maps: dict[int, Map] = {}
    found = []
    while at < len(file):
        kind, length = file[at + 4], int.from_bytes(file[at + 9 : at + 13], "little")
        body = Reader(file[at + 19 : at + length - checksum])
        if kind == 15:
            checksum = 4 if file[at + length - 5] == 1 else 0
        elif kind in (33, 34):
            body.take(1)
            uuid, gno = body.take(16).hex(), body.number(8)
            gtid = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}:{gno}" if kind == 33 else None
            seq, row = seq + 1, 0
        elif kind == 19:
            table = Map(body)
            maps[table.id] = table
        elif kind in (30, 31, 32, 39):
            for op, before, after in rows(kind, body, maps):
                table = maps[int.from_bytes(body.data[:6], "little")]
                found.append({"gtid": gtid, "seq": seq, "row": row, "database": table.database, "table": table.table,
                              "op": op, "before": before, "after": after})  # fmt: skip
                row += 1  # noqa: SIM113  goes on over the events of a transaction
        at += length
    return found


class Map:
    def __init__(self, body: Reader) -> None:
        self.id = body.number(6)
        body.take(2)
        self.database = body.take(body.packed()).decode()
        body.take(1)
        self.table = body.take(body.packed()).decode()
        body.take(1)
        codes = list(body.take(body.packed()))
        metadata = Reader(body.take(body.packed()))
        self.columns = [self.column(code, metadata) for code in codes]
        body.bits(len(codes))
        self.unsigned = [False] * len(codes)
        self.collations = [0] * len(codes)
        while body.left:
            field, value = body.number(1), Reader(body.take(body.packed()))
            self.optional(field, value)

    @staticmethod
    def column(code: int, metadata: Reader) -> tuple[int, int]:
        if code in ONE_BYTE:
            return code, metadata.number(1)
        if code in TWO_BYTES:
            return code, metadata.number(2)
        if code == 246:
            return code, metadata.number(1) << 8 | metadata.number(1)
        if code == 254:
            real, size = metadata.number(1), metadata.number(1)
            if real in (247, 248):
                return real, size
            return 254, size | ((real & 0x30) ^ 0x30) << 4
        return code, 0

    def optional(self, field: int, value: Reader) -> None:
        codes = [code for code, _ in self.columns]
        if field == 1:
            signs = "".join(f"{byte:08b}" for byte in value.data)
            numeric = [at for at, code in enumerate(codes) if code in NUMERIC]
            for at, sign in zip(numeric, signs):  # noqa: B905 - bits are padded to bytes
                self.unsigned[at] = sign == "1"
        text = [at for at, code in enumerate(codes) if code in CHARACTER]
        if field == 2:
            default = value.packed()
            for at in text:
                self.collations[at] = default
            while value.left:
                at = text[value.packed()]
                self.collations[at] = value.packed()
        if field == 3:
            for at in text:
                self.collations[at] = value.packed()


def rows(kind: int, body: Reader, maps: dict[int, Map]) -> Any:
    table = maps[body.number(6)]
    body.take(2)
    body.take(body.number(2) - 2)
    count = body.packed()
    first = body.bits(count)
    second = body.bits(count) if kind in (31, 39) else first
    while body.left:
        image = read_image(body, table, first)
        if kind == 30:
            yield "insert", None, image
        elif kind == 32:
            yield "delete", image, None
        else:
            assert kind == 31, "partial updates are not read here"
            yield "update", image, read_image(body, table, second)


def read_image(body: Reader, table: Map, present: list[bool]) -> dict[str, Any]:
    nulls = iter(body.bits(sum(present)))
    image = {}
    for at, (code, metadata) in enumerate(table.columns):
        if present[at]:
            null = next(nulls)
            image[f"@{at + 1}"] = None if null else cell(body, code, metadata, table.unsigned[at], table.collations[at])
    return image


def cell(body: Reader, code: int, metadata: int, unsigned: bool, collation: int) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case a type
    integers = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
    if code in integers:
        return int.from_bytes(body.take(integers[code]), "little", signed=not unsigned)
    if code == 4:
        number = struct.unpack("<f", body.take(4))[0]
        return next(float(f"{number:.{digits}g}") for digits in range(1, 18)
                    if struct.pack("<f", float(f"{number:.{digits}g}")) == struct.pack("<f", number))  # fmt: skip
    if code == 5:
        return struct.unpack("<d", body.take(8))[0]
    if code == 246:
        return decimal(body, metadata >> 8, metadata & 255)
    if code == 16:
        bits = (metadata >> 8) * 8 + (metadata & 255)
        return int.from_bytes(body.take((bits + 7) // 8), "big")
    if code == 13:
        year = body.number(1)
        return year + 1900 if year else 0
    if code in (10, 17, 18, 19):
        return temporal(body, code, metadata)
    if code in (247, 248):
        return body.number(metadata)
    if code in (15, 253, 254):
        data = body.take(body.number(1 if metadata < 256 else 2))
        if code == 254 and collation == BINARY_COLLATION:
            data = data.ljust(metadata, b"\0")
        return text(data, collation)
    data = body.take(body.number(metadata))
    if code == 252:
        return text(data, collation)
    if code == 245:
        return json_text(data)
    if code == 242:
        return [float(cell(Reader(data[k : k + 4]), 4, 0, unsigned=False, collation=0)) for k in range(0, len(data), 4)]
    assert code == 255, code
    return b64encode(data).decode()


def text(data: bytes, collation: int) -> str:
    if collation == BINARY_COLLATION:
        return b64encode(data).decode()
    return data.decode("cp1252" if collation in LATIN1_COLLATIONS else "utf-8")


def decimal(body: Reader, precision: int, scale: int) -> str:
    sizes = [0, 1, 1, 2, 2, 3, 3, 4, 4]
    whole = precision - scale
    groups = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9)
    fractions = [9] * (scale // 9) + ([scale % 9] if scale % 9 else [])
    size = sum(4 if digits == 9 else sizes[digits] for digits in groups + fractions)
    data = bytearray(body.take(size))
    negative = not data[0] & 0x80
    data[0] ^= 0x80
    if negative:
        data = bytearray(byte ^ 0xFF for byte in data)
    reader = Reader(bytes(data))
    digits = "".join(
        f"{int.from_bytes(reader.take(4 if each == 9 else sizes[each]), 'big'):0{each}}" for each in groups + fractions
    )
    left = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + left + ("." + digits[whole:] if scale else "")


def temporal(body: Reader, code: int, fsp: int) -> str:
    if code == 10:
        packed = body.number(3)
        return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"
    size = {17: 4, 18: 5, 19: 3}[code]
    whole = int.from_bytes(body.take(size), "big")
    extra = (fsp + 1) // 2
    fraction = int.from_bytes(body.take(extra), "big")
    sign = ""
    if code == 19:
        packed = (whole << 8 * extra | fraction) - (0x800000 << 8 * extra)
        sign, packed = ("-" if packed < 0 else ""), abs(packed)
        whole, fraction = packed >> 8 * extra, packed & (1 << 8 * extra) - 1
    digits = f".{fraction:0{2 * extra}}"[: fsp + 1] if fsp else ""
    if code == 19:
        return f"{sign}{whole >> 12 & 0x3FF:02}:{whole >> 6 & 63:02}:{whole & 63:02}{digits}"
    if code == 18:
        whole -= 0x8000000000
        year, month = divmod(whole >> 22, 13)
        clock = f"{whole >> 12 & 31:02}:{whole >> 6 & 63:02}:{whole & 63:02}"
        return f"{year:04}-{month:02}-{whole >> 17 & 31:02} {clock}{digits}"
    if whole == 0:
        return "0000-00-00 00:00:00" + digits
    days, seconds = divmod(whole, 86400)
    return f"{civil(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{digits}"


def civil(days: int) -> str:
    year = 1970
    while days >= (size := 366 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 365):
        days, year = days - size, year + 1
    month = 1
    for length in (31, 29 if size == 366 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31):
        if days < length:
            break
        days, month = days - length, month + 1
    return f"{year:04}-{month:02}-{days + 1:02}"


def json_text(data: bytes) -> str:
    return json_value(data[0], data[1:]) if data else "null"


def json_value(kind: int, data: bytes) -> str:
    if kind <= 3:
        return json_container(kind, data)
    if kind == 4:
        return ("null", "true", "false")[data[0]]
    numbers = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
    if kind in numbers:
        return str(struct.unpack_from(numbers[kind], data)[0])
    if kind == 11:
        return json_double(struct.unpack_from("<d", data)[0])
    if kind == 12:
        size, at = json_length(data, 0)
        return json.dumps(data[at : at + size].decode(), ensure_ascii=False)
    assert kind == 15
    size, at = json_length(data, 1)
    return json_opaque(data[0], data[at : at + size])


def json_length(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        size |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return size, at


def json_container(kind: int, data: bytes) -> str:
    width, is_object = 4 if kind in (1, 3) else 2, kind <= 1

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    count = number(0, width)
    at = 2 * width
    keys = []
    for _ in range(count if is_object else 0):
        begin = number(at, width)
        keys.append(data[begin : begin + number(at + width, 2)].decode())
        at += width + 2
    values = []
    for _ in range(count):
        child = data[at]
        inline = child in (4, 5, 6) or (width == 4 and child in (7, 8))
        values.append(json_value(child, data[at + 1 :] if inline else data[number(at + 1, width) :]))
        at += width + 1
    if not is_object:
        return "[" + ", ".join(values) + "]"
    members = zip(keys, values, strict=True)
    return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in members) + "}"


def json_double(number: float) -> str:
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    mark = "-" if sign else ""
    if not text:
        return mark + "0.0"
    if -15 < point <= 15 or 0 < point < len(text):
        if point <= 0:
            return f"{mark}0.{'0' * -point}{text}"
        return mark + (f"{text[:point]}.{text[point:]}" if point < len(text) else f"{text.ljust(point, '0')}.0")
    return f"{mark}{text[0]}{'.' + text[1:] if len(text) > 1 else ''}e{point - 1}"


def json_opaque(kind: int, data: bytes) -> str:
    if kind == 253:
        return json.dumps(data.decode(), ensure_ascii=False)
    if kind == 246:
        return decimal(Reader(data[2:]), data[0], data[1])
    if kind in (7, 10, 11, 12):
        packed = int.from_bytes(data, "little", signed=True)
        sign, packed = ("-" if packed < 0 else ""), abs(packed)
        clock, micros = packed >> 24, packed & 0xFFFFFF
        if kind == 11:
            return f'"{sign}{clock >> 12 & 0x3FF:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{micros:06}"'
        year, month = divmod(clock >> 22, 13)
        date = f"{year:04}-{month:02}-{clock >> 17 & 31:02}"
        time = f" {clock >> 12 & 31:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{micros:06}"
        return f'"{date}{"" if kind == 10 else time}"'
    lines = [b64encode(data[k : k + 57]).decode() for k in range(0, len(data), 57)]
    return f'"base64:type{kind}:' + "\\n".join(lines) + '"'
