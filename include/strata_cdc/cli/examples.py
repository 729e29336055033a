"""Examples of each command, which `--help` shows at its end.
Not here: the commands (one file each beside this one)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    import typer

_RUN = "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": ("strata demo",),
    "init": ("strata init", "strata init --source shop --table 'shop.*' --no-mirrors --file strata.toml"),
    "run": (
        "strata run",
        "strata run --follow --every 2s",
        "strata run --from 2026-11-20 --until 2026-11-21 --table shop.orders",
        "strata run --dry-run",
    ),
    "land": ("strata land", "strata land --follow", "strata land --files '/backup/binlog.0*'"),
    "snapshot": ("strata snapshot --source shop",),
    "track": ("strata track", "strata track binlog.000001 binlog.000002 --source shop --store sqlite:///shop.db"),
    "plan": ("strata plan --source shop", "strata plan --start 2026-11-20T10:00:00 --end 2026-11-20T11:00:00"),
    "decode": (
        "strata decode binlog.000001 --out - --format jsonl",
        "strata decode binlog.* --source shop --store sqlite:///shop.db --table shop.items --format parquet --out rows",
        "strata decode s3://bucket/feed/ --out rows.jsonl --time-zone UTC",
        f"strata decode {_RUN}",
    ),
    "check": (f"strata check {_RUN}", "strata check --dry-run --table shop.orders"),
    "publish": (f"strata publish {_RUN}",),
    "intervals": ("strata intervals --failed --held", "strata intervals --table shop.orders --start 2026-11-20"),
    "status": ("strata status", "strata status --source shop", "strata status --group shards"),
    "position": ("strata position --time '2026-11-20 10:00'", "strata position --file binlog.000042:1547"),
    "cut": ("strata cut --group shards",),
    "stream": (
        "strata stream --source shop --from now --follow",
        "strata stream --source shop --from beginning --table 'shop.orders'",
        "strata stream --group shards --from now --follow",
    ),
    "retain": ("strata retain --source shop",),
    "housekeep": ("strata housekeep --dry-run",),
    "views": ("strata views --source shop --dialect duckdb", "strata views --history --dialect spark"),
    "dump": (
        "strata dump --table shop.orders",
        "strata dump --from-mysqldump backup.sql",
        "strata dump --from-dumpling export",
    ),
    "serve": ("strata serve", "strata serve --host 0.0.0.0 --port 8443 --tls-cert cert.pem --tls-key key.pem"),
    "sql": (
        "strata sql --at '2026-11-20 10:00' \"SELECT state, COUNT(*) FROM shop.orders GROUP BY state\"",
        "strata sql --format csv --out orders.csv 'SELECT * FROM shop.orders'",
    ),
    "row history": (
        "strata row history shop.orders 7",
        "strata row history shop.orders --where \"state = 'lost'\" --from '2026-11-20 10:00'",
    ),
    "row blame": ("strata row blame shop.orders 7", "strata row blame shop.orders 7 --at '2026-11-20 10:00'"),
    "row diff": ("strata row diff shop.orders --from '2026-11-20 10:00' --to '2026-11-20 11:00'",),
    "undo": (
        "strata undo --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:77 --table shop.orders --out undo.sql",
        "strata undo --from '2026-11-20 10:00' --to '2026-11-20 10:05' --table shop.orders --where 'id < 9' --dry-run",
    ),
    "redo": ("strata redo --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:77 --table shop.orders --out redo.sql",),
    "reconcile": ("strata reconcile", "strata reconcile --table shop.orders --keys 10000"),
    "doctor": ("strata doctor", "strata doctor --source shop"),
    "upgrade": ("strata upgrade --dry-run", "strata upgrade"),
    "docs": ("strata docs", "strata docs landing"),
    "man": ("strata man",),
    "version": ("strata version", "strata version --json"),
    "schema show": (
        "strata schema show --table shop.items",
        "strata schema show --time '2026-11-20 10:00' --dialect snowflake",
    ),
    "schema history": ("strata schema history --table shop.items",),
    "schema diff": ("strata schema diff --from '2026-11-20 10:00' --to '2026-11-21 10:00'",),
    "quarantine list": ("strata quarantine list --source shop",),
    "quarantine show": ("strata quarantine show --table shop.orders --rows 20",),
    "quarantine release": ("strata quarantine release --table shop.orders --because 'the rule was wrong'",),
    "quarantine discard": ("strata quarantine discard --table shop.orders --because 'rows of a test'",),
    "cache follow": ("strata cache follow --source shop --redis redis://localhost/0 --shapes shapes.toml",),
    "cache inspect": ("strata cache inspect --source shop --redis redis://localhost/0 --shapes shapes.toml",),
    "token show": ("strata token show TOKEN",),
    "token compare": ("strata token compare TOKEN OTHER",),
    "token merge": ("strata token merge TOKEN OTHER",),
    "token without": ("strata token without TOKEN shard_c",),
    "lake show": ("strata lake show --source shop",),
    "lake rebuild": ("strata lake rebuild --source shop",),
    "mirror update": ("strata mirror update", "strata mirror update --table 'shop.*'"),
    "mirror list": ("strata mirror list",),
    "mirror compact": ("strata mirror compact --table shop.orders",),
    "mirror vacuum": ("strata mirror vacuum --retain-hours 168",),
    "mirror keep": ("strata mirror keep --source shop",),
    "mirror verify": ("strata mirror verify --offline",),
}
"""By the words after `strata`."""


def add_examples(app: typer.Typer) -> None:
    """Adds to the help of each command of an app its examples."""
    for command in app.registered_commands:
        _add(command, _name(command))
    for added in app.registered_groups:
        for command in added.typer_instance.registered_commands if added.typer_instance else ():
            _add(command, f"{added.name} {_name(command)}")


def _name(command: typer.models.CommandInfo) -> str:
    return command.name or getattr(command.callback, "__name__", "").replace("_", "-")


def _add(command: typer.models.CommandInfo, name: str) -> None:
    # Each its own paragraph: the help joins the lines of a paragraph.
    command.epilog = "\n\n".join(["Examples:", *EXAMPLES[name]])
