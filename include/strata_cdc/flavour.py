"""Which server's rules hold: its vendor and its version.
Not here: the rules, which stand where they apply (`schema/apply/`, `binlog/bytes/`); what a server is set to."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from msgspec import Struct

_DIGITS = re.compile(r"[0-9]*")


class Vendor(StrEnum):
    """Who makes a server: their rules differ whatever the version."""

    MYSQL = "mysql"
    MARIADB = "mariadb"


class Flavour(Struct, frozen=True):
    """A vendor and a version. Versions of two vendors are never compared: rules ask `is_mysql`."""

    vendor: Vendor
    version: tuple[int, int, int]
    """Major, minor, patch: (9, 7, 4)."""

    @classmethod
    def mysql(cls, number: int) -> Self:
        """From the number that MySQL writes in GTID events and executable comments: 90704 is 9.7.4."""
        return cls(Vendor.MYSQL, (number // 10_000, number // 100 % 100, number % 100))

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `@@version`: `9.7.4-debug`, `10.11.2-MariaDB`. Of each part the digits that it begins with
        count, of none 0. MariaDB before 11.0 greets with `5.5.5-` before its version (sql/sql_acl.cc)."""
        parts = (*text.removeprefix("5.5.5-").split("-", maxsplit=1)[0].split("."), "", "")[:3]
        major, minor, patch = (int("".join(_DIGITS.findall(part)[:1]) or 0) for part in parts)
        return cls(Vendor.MARIADB if "mariadb" in text.lower() else Vendor.MYSQL, (major, minor, patch))

    @classmethod
    def stored(cls, number: int) -> Self:
        """From `stored_number`."""
        return cls(Vendor.MYSQL if number > 0 else Vendor.MARIADB, cls.mysql(abs(number)).version)

    @property
    def stored_number(self) -> int:
        """As the store keeps it: 90704 for MySQL 9.7.4, -110809 for MariaDB 11.8.9."""
        return self.number if self.vendor is Vendor.MYSQL else -self.number

    @property
    def number(self) -> int:
        """As servers write it in executable comments: 90704 for 9.7.4."""
        major, minor, patch = self.version
        return major * 10_000 + minor * 100 + patch

    def is_mysql(self, *since: int) -> bool:
        """Whether it is a MySQL of this version, `is_mysql(8, 0, 19)`, or of a newer one."""
        return self.vendor is Vendor.MYSQL and self.version >= since

    def is_mariadb(self, *since: int) -> bool:
        """Whether it is a MariaDB of this version, `is_mariadb(11, 5)`, or of a newer one."""
        return self.vendor is Vendor.MARIADB and self.version >= since

    def __str__(self) -> str:
        """`9.7.4`, as people write it; with the vendor where it is not MySQL."""
        version = ".".join(map(str, self.version))
        return version if self.vendor is Vendor.MYSQL else f"{self.vendor} {version}"


NEWEST = Flavour(Vendor.MYSQL, (9, 7, 4))
"""What is assumed where nothing says a version: the newest that this reader was proved against."""
