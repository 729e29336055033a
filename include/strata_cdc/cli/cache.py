"""`strata cache`: follows a source and keeps a cache on Redis free of old values; proves that it was free of them.
Not here: caches (`cache/`)."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.config.source_kinds import no_server
from strata_cdc.errors import Transient, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.cache.invalidator import Invalidator, Report, Start
    from strata_cdc.cache.server import CacheServer
    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.config.settings import Source

PAUSE_SECONDS = 1.0
"""Between two tries of a follower whose cache or server does not answer."""
Url = Annotated[
    str,
    typer.Option(
        "--redis",
        envvar="STRATA_CACHE_URL",
        show_envvar=True,
        help="As redis://user:secret@host:6379/0. Other users of the machine see what is written here.",
    ),
]
File = Annotated[Path, typer.Option("--shapes", help="TOML file with the shapes that are cached.")]
Name = Annotated[str, typer.Option(help="Name of the cache: several may be on one Redis.")]


_LONGEST_BACK_SECONDS = 1e9


def _opened(source: str | None, url: str, name: str, file: Path) -> tuple[Source, CacheServer, Shapes]:
    from strata_cdc.cache.server import CacheServer
    from strata_cdc.cache.shapes import Shapes

    shapes = Shapes.read(file)
    configured = source_of(source or shapes.source)
    if configured.is_sink:
        raise no_server(configured.name)  # before the cache is called
    return configured, CacheServer(url, name), shapes


GROUP = typer.Typer(
    help="Caches on Redis that never serve a value that an invalidation has made old.", no_args_is_help=True
)


@GROUP.command()
def follow(  # noqa: PLR0913  each is an option of the command
    context: typer.Context,
    source: SourceName = None,
    url: Url = "redis://127.0.0.1:6379/0",
    shapes: File = Path("cache.toml"),
    name: Name = "strata",
    back: Annotated[
        float | None,
        typer.Option(min=0, help="Invalidates the changes of the last SECONDS once more, before it continues."),
    ] = None,
    log: Annotated[
        int, typer.Option(min=0, help="Records that the cache keeps for `strata cache inspect`; 0 for none.")
    ] = 0,
    *,
    anew: Annotated[
        bool, typer.Option("--anew", help="Nothing that the cache holds counts any more, whatever it is of.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Ends with the transactions that the server has executed by now, instead of following."
        ),
    ] = False,
) -> None:
    """Invalidates entries as their rows change, until SIGTERM or Ctrl-C; started again, it continues where it was.

    A cache or a server that does not answer is tried again each second.
    """
    if anew and back is not None:
        raise Usage("--anew forgets all invalidations, and --back continues from them", remedy="Give one of them.")
    if back is not None and not back <= _LONGEST_BACK_SECONDS:
        raise Usage(f"--back {back} is no time that a server has been there for", remedy="Give seconds, as in 3600.")
    from strata_cdc.cache.invalidator import Invalidator, Start

    configured, server, declared = _opened(source, url, name, shapes)
    follower = Invalidator(configured, server, declared, log=log, on_remark=lambda text: typer.echo(text, err=True))
    run = partial(follower.run, follow=not once, back=timedelta(seconds=back) if back is not None else None)
    begin = Start.FORGOTTEN if anew else Start.CHECKPOINT
    if once:
        run(begin=begin)
    else:
        _go_on(follower, run, begin)
    print_report(follower.report, as_json=bool(context.obj["json"]))


def _go_on(
    follower: Invalidator, run: Callable[..., Report], begin: Start, pause_seconds: float = PAUSE_SECONDS
) -> None:
    """Until somebody ends it."""
    ended = threading.Event()
    printed: set[str] = set()

    def end(*_: object) -> None:
        ended.set()
        follower.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while not ended.is_set():
        before = replace(follower.report)
        try:
            run(begin=begin)
            ended.set()
        except Transient as error:
            # While several causes take turns, each is printed once; after it has gone on, again.
            if follower.report != before:
                printed.clear()
            if str(error) not in printed:
                typer.echo(f"strata: {error}", err=True)
            printed.add(str(error))
            # An epoch that has begun is continued.
            begin = type(begin).CHECKPOINT if follower.report.epochs else begin
            ended.wait(pause_seconds)


@GROUP.command()
def inspect(
    context: typer.Context,
    source: SourceName = None,
    url: Url = "redis://127.0.0.1:6379/0",
    shapes: File = Path("cache.toml"),
    name: Name = "strata",
) -> None:
    """Reads the stream again together with the cache's log, and proves that the cache had nothing older than an
    acknowledged invalidation. Exit code 1 if something was."""
    from strata_cdc.cache.inspector import Inspector, require_proof

    inspection = Inspector(*_opened(source, url, name, shapes)).inspect()
    print_report(inspection, as_json=bool(context.obj["json"]))
    require_proof(inspection)
