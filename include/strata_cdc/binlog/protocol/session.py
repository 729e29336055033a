"""The variables that each session of Strata sets, so that answers do not depend on the server's own settings.
Not here: connecting (`client.py`), what single steps set besides, such as for rows (`changes/select/statement.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pymysql.constants import ER
from pymysql.err import MySQLError

from strata_cdc.flavour import Flavour, Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pymysql

_UNKNOWN_VARIABLE: Final = ER.UNKNOWN_SYSTEM_VARIABLE
_ALWAYS: Final = (0,)
_NEVER: Final = (1000,)


class SessionVariable(NamedTuple):
    """A variable that each session sets, whatever its global value is."""

    name: str
    value: str
    """The value as in SET."""
    since: tuple[int, ...] = _ALWAYS
    """The first MySQL that has it."""
    until: tuple[int, ...] | None = None
    """The first MySQL that does not have it any more."""
    mariadb: tuple[int, ...] | None = None
    """The first MariaDB that has it; None for all of them if each MySQL has it, and else for none."""


SESSION_VARIABLES: Final = (
    # How many rows an answer has, and whether it comes.
    SessionVariable("sql_select_limit", "18446744073709551615"),
    SessionVariable("max_join_size", "18446744073709551615"),
    SessionVariable("sql_big_selects", "1"),  # after max_join_size, which changes it
    SessionVariable("max_execution_time", "0", (5, 7, 8)),
    SessionVariable("max_statement_time", "0", _NEVER, mariadb=(10, 1)),
    SessionVariable("cte_max_recursion_depth", "100000", (8, 0, 3)),
    SessionVariable("max_recursive_iterations", "100000", _NEVER, mariadb=(10, 2)),
    # What a statement means.
    SessionVariable("sql_mode", "'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"),
    SessionVariable("sql_auto_is_null", "0"),
    SessionVariable("sql_safe_updates", "0"),
    SessionVariable("collation_connection", "utf8mb4_general_ci"),
    SessionVariable("time_zone", "'+00:00'"),
    SessionVariable("div_precision_increment", "4"),
    SessionVariable("default_week_format", "0"),
    SessionVariable("lc_time_names", "'en_US'"),
    SessionVariable("lc_messages", "'en_US'"),
    SessionVariable("group_concat_max_len", "1073741824"),
    SessionVariable("old_mode", "'UTF8_IS_UTF8MB3'", _NEVER, mariadb=(10, 6)),
    SessionVariable("character_set_collations", "''", _NEVER, mariadb=(11, 2)),
    # By how many bytes texts are sorted: more than the longest key has.
    SessionVariable("max_sort_length", "8192"),
    SessionVariable("sort_buffer_size", "1048576"),  # has to hold some rows of that many bytes
    # What SHOW and information_schema show.
    SessionVariable("information_schema_stats_expiry", "0", (8, 0, 3)),
    SessionVariable("show_gipk_in_create_table_and_information_schema", "ON", (8, 0, 30)),
    SessionVariable("show_create_table_verbosity", "OFF", (5, 7, 22)),
    SessionVariable("show_old_temporals", "OFF", (5, 7, 6), (8, 4)),
    SessionVariable("sql_quote_show_create", "1"),
    # Which state is seen, and when it is another one.
    SessionVariable("transaction_isolation", "'REPEATABLE-READ'", (5, 7, 20)),
    SessionVariable("transaction_read_only", "OFF", (5, 7, 20)),
    SessionVariable("tx_isolation", "'REPEATABLE-READ'", _NEVER, mariadb=(10, 0)),
    SessionVariable("tx_read_only", "OFF", _NEVER, mariadb=(10, 0)),
    SessionVariable("system_versioning_asof", "DEFAULT", _NEVER, mariadb=(10, 3)),
    SessionVariable("completion_type", "'NO_CHAIN'"),
    # What the store writes.
    SessionVariable("foreign_key_checks", "1"),
    SessionVariable("unique_checks", "1"),
    SessionVariable("default_storage_engine", "'InnoDB'"),
    # How long either side may be silent: a reader that waits for others is not broken.
    SessionVariable("net_read_timeout", "60"),
    SessionVariable("net_write_timeout", "600"),
    SessionVariable("wait_timeout", "28800"),
    SessionVariable("idle_transaction_timeout", "0", _NEVER, mariadb=(10, 3)),
    SessionVariable("idle_readonly_transaction_timeout", "0", _NEVER, mariadb=(10, 3)),
    SessionVariable("idle_write_transaction_timeout", "0", _NEVER, mariadb=(10, 3)),
)
"""Of all variables with session scope (MySQL 9.7, MariaDB 11.8) those that could change an answer of Strata, or an
error.

Not set are those that change how fast a plan is (`optimizer_switch`, buffers), how long is waited for locks, what only
writers of users' tables see, and those that need a grant (`SESSION_VARIABLES_ADMIN`)."""


def set_session(connection: pymysql.Connection[Any]) -> None:
    """Sets all of them, with one statement.

    Raises:
        pymysql.err.MySQLError: The server refuses one, or does not answer.
    """
    flavour = Flavour.parse(str(connection.get_server_info()))
    wanted = [variable for variable in SESSION_VARIABLES if _is_there(variable, flavour)]
    try:
        _set(connection, wanted)
    except MySQLError as error:
        if _code(error) != _UNKNOWN_VARIABLE:
            raise
        _set_known(connection, wanted)


def _is_there(variable: SessionVariable, flavour: Flavour) -> bool:
    if flavour.vendor is Vendor.MARIADB:
        return variable.since == _ALWAYS if variable.mariadb is None else flavour.version >= variable.mariadb
    if variable.until is not None and flavour.is_mysql(*variable.until):
        return False
    return flavour.is_mysql(*variable.since)


def _set(connection: pymysql.Connection[Any], variables: Iterable[SessionVariable]) -> None:
    text = ", ".join(f"SESSION {variable.name} = {variable.value}" for variable in variables)
    with connection.cursor() as cursor:
        cursor.execute(f"SET {text}")


def _set_known(connection: pymysql.Connection[Any], variables: Iterable[SessionVariable]) -> None:
    """Sets them one by one: a variable that the server does not have is skipped."""
    for variable in variables:
        try:
            _set(connection, [variable])
        except MySQLError as error:
            if _code(error) != _UNKNOWN_VARIABLE:
                raise


def _code(error: MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0
