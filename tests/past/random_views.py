"""Views over the tables of `random_shop.py`: made, replaced, altered, renamed and dropped at random.
Not here: running the statements (`test_random_views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.past.random_queries import RandomQueries

if TYPE_CHECKING:
    from random import Random

    from tests.past.random_queries import Columns

VIEWS = ("v1", "v2", "v3", "v4")
TABLES = ("customers", "orders", "items")
STATEMENTS = (
    "CREATE OR REPLACE VIEW {v} AS SELECT * FROM {t}",
    "CREATE OR REPLACE VIEW {v} AS SELECT * FROM {w}",
    "CREATE OR REPLACE VIEW {v} AS SELECT {w}.*, 1 + 1 FROM {w} WHERE EXISTS (SELECT * FROM {t})",
    "CREATE OR REPLACE VIEW {v} (id, `the total`) AS SELECT id, total FROM orders WHERE n > 0 WITH CHECK OPTION",
    "CREATE OR REPLACE ALGORITHM = TEMPTABLE VIEW {v} AS SELECT id, (SELECT COUNT(*) FROM orders WHERE "
    "customer = customers.id AND total > credit) AS bought FROM customers WHERE code <> 'b'",
    "CREATE OR REPLACE VIEW {v} AS SELECT state, COUNT(*), SUM(total) FROM orders GROUP BY state HAVING COUNT(*) > 1",
    "CREATE OR REPLACE VIEW {v} AS SELECT name, credit, placed FROM customers c JOIN orders o ON customer = c.id",
    "CREATE OR REPLACE VIEW {v} AS WITH few AS (SELECT * FROM orders WHERE n < 5) SELECT few.*, mail FROM few JOIN "
    "customers USING (id)",
    "CREATE OR REPLACE VIEW {v} AS SELECT id FROM customers UNION SELECT order_id FROM items",
    "CREATE OR REPLACE VIEW {v} AS SELECT c0, id FROM customers",
    "ALTER VIEW {v} AS SELECT * FROM {t}",
    "ALTER SQL SECURITY INVOKER VIEW {v} AS SELECT code, MIN(id) AS id, MAX(credit) AS c FROM customers GROUP BY code",
    "RENAME TABLE {v} TO {w}",
    "DROP VIEW IF EXISTS {v}",
)


class RandomViews:
    """Statements on views, one after the other; whoever runs them ignores those that the server refuses.

    Args:
        random: Where chance comes from.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def step(self, columns: Columns) -> str:
        """The next statement.

        Args:
            columns: Of the tables and views that there are.
        """
        view, other = self._random.sample(VIEWS, 2)
        if self._random.random() < 0.25:
            query = RandomQueries(self._random, columns).query().replace("{db}.", "")
            return f"CREATE OR REPLACE VIEW {view} AS {query}"
        return self._random.choice(STATEMENTS).format(v=view, w=other, t=self._random.choice(TABLES))
