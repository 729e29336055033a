"""The text that MySQL prints for dates and times, from the parts that the log has; for those that are no dates.
Not here: dates and times that Arrow can express (`kernels/temporal.py`)."""

from __future__ import annotations

from strata.wire.codes import FieldType


def temporal_text(code: int, fsp: int, cell: bytes) -> str:
    """A DATE, DATETIME or TIMESTAMP cell as MySQL prints it, whatever its parts say."""
    if code in (FieldType.DATE, FieldType.NEWDATE):
        packed = int.from_bytes(cell[:3], "little")
        return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"
    if code == FieldType.DATETIME:
        digits = f"{int.from_bytes(cell[:8], 'little'):014}"
        return f"{digits[:-10]}-{digits[-10:-8]}-{digits[-8:-6]} {digits[-6:-4]}:{digits[-4:-2]}:{digits[-2:]}"
    if code == FieldType.DATETIME2:
        packed = int.from_bytes(cell[:5], "big") - 0x80_0000_0000
        day, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(day >> 5, 13)
        text = f"{year:04}-{month:02}-{day & 31:02} {clock >> 12:02}:{clock >> 6 & 63:02}:{clock & 63:02}"
        return text + _fraction(cell[5:], fsp)
    # The only TIMESTAMP that is no date is 0.
    return "0000-00-00 00:00:00" + _fraction(cell[4:], fsp)


def _fraction(packed: bytes, fsp: int) -> str:
    if fsp == 0:
        return ""
    digits = f"{int.from_bytes(packed, 'big'):0{len(packed) * 2}}"
    return "." + digits[:fsp]
