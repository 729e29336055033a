"""Vendors and versions: read from what servers say, compared within one vendor."""

from __future__ import annotations

import pytest

from strata_cdc.flavour import NEWEST, Flavour, Vendor


@pytest.mark.parametrize(
    ("text", "vendor", "number", "shown"),
    [
        ("9.7.4-debug", Vendor.MYSQL, 90704, "9.7.4"),
        ("8.0.36-0ubuntu0.22.04.1-log", Vendor.MYSQL, 80036, "8.0.36"),
        ("5.1.73rel14.11-log", Vendor.MYSQL, 50173, "5.1.73"),
        ("10.11.2-MariaDB-1:10.11.2+maria~ubu2204", Vendor.MARIADB, 101102, "mariadb 10.11.2"),
        ("8", Vendor.MYSQL, 80000, "8.0.0"),
    ],
)
def test_what_servers_say(text, vendor, number, shown):
    flavour = Flavour.parse(text)
    assert (flavour.vendor, flavour.number, str(flavour)) == (vendor, number, shown)


def test_versions_are_compared_as_numbers_of_one_vendor():
    assert Flavour.mysql(80036) == Flavour.parse("8.0.36")
    assert NEWEST.is_mysql(8, 0, 19)
    assert NEWEST.is_mysql(9)
    assert NEWEST.is_mysql()
    assert Flavour.mysql(80100).is_mysql(8, 0, 36)
    assert not Flavour.mysql(50744).is_mysql(8)
    # A newer number of another vendor is no newer server.
    assert not Flavour.parse("10.11.2-MariaDB").is_mysql(8)
