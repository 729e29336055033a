"""An application that reads a shop's orders through a cache, and sees its own writes at once.

Run it: `python -m demo.cached_shop MYSQL_URL REDIS_URL orders CUSTOMER`, or `... pay ORDER`; beside it
`strata cache follow` with the shapes below. docs/caches.md explains it.
Not here: the shop's life (`life/`).
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pymysql.constants import CLIENT

from strata_cdc import tokens
from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection
from strata_cdc.cache import Cache, Shape, Shapes

if TYPE_CHECKING:
    from strata_cdc.tokens import Token

SHAPES = Shapes.of(
    "shop",
    [
        Shape("order", {"shop.orders": ("id",)}),
        # A query by another column: rows that come, go and change their customer invalidate it.
        Shape("orders_of_customer", {"shop.orders": ("customer_id",)}),
    ],
)


class Shop:
    """What the application does with orders."""

    def __init__(self, mysql_url: str, redis_url: str, name: str = "strata") -> None:
        """Connects to MySQL; the cache is asked when it is needed, and may be away."""
        address = ServerAddress.from_url(mysql_url)
        self.connection = open_connection(address, autocommit=True, client_flag=CLIENT.SESSION_TRACK)
        tokens.remember(self.connection)
        self.cache = Cache(redis_url, name, SHAPES, expire_seconds=3600)

    def orders(self, customer: int, at_least: Token | None = None) -> list[Any]:
        """The orders of a customer: of the cache where it has them."""

        def load() -> bytes | None:
            rows = self._rows("SELECT id, state FROM shop.orders WHERE customer_id = %s ORDER BY id", customer)
            return json.dumps(rows).encode() if rows else None

        found = self.cache.get("orders_of_customer", (customer,), load, connection=self.connection, at_least=at_least)
        return [] if found is None else list(json.loads(found))

    def pay(self, order: int) -> Token:
        """Pays an order; who reads with the token sees that it is paid."""
        self._rows("UPDATE shop.orders SET state = 'paid' WHERE id = %s", order)
        return tokens.own(self.connection, source=SHAPES.source)

    def _rows(self, statement: str, *arguments: object) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return list(cursor.fetchall())


def main(arguments: list[str]) -> None:
    """One request."""
    mysql_url, redis_url, what, number = arguments
    shop = Shop(mysql_url, redis_url)
    if what == "pay":
        token = shop.pay(int(number))
        answer: dict[str, Any] = {"paid": int(number), "token": tokens.to_text(token)}
    else:
        answer = {"orders": shop.orders(int(number)), "hits": shop.cache.counts.hits}
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
