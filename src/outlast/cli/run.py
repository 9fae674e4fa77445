"""`outlast run`: the words of the command, and their checks. The work is `shims.run`'s."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from outlast.shims.settings import read_settings

__all__ = ["run_command"]

NOT_BEGUN = 125  # as where a kernel refuses


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--only", multiple=True, metavar="PATTERN", help="Supervise these destinations only.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave these destinations alone.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="DESTINATION=TARGET",
    help="Connect to the target's endpoints in place of the destination.",
)
@click.option("--config", type=click.Path(dir_okay=False), help="A TOML file of settings.")
@click.option("--explain", is_flag=True, help="Tell on stderr what was done with each connection.")
@click.option(
    "--io-uring",
    type=click.Choice(["allow", "refuse"]),
    default="allow",
    show_default=True,
    help="Connects made through io_uring are not seen; refuse has the program do without it.",
)
@click.option(
    "--unprotected",
    is_flag=True,
    help="Where supervision is not possible, run the program without it.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM ...")
def run_command(
    only: Sequence[str],
    skip: Sequence[str],
    targets: Sequence[str],
    config: str | None,
    explain: bool,
    io_uring: str,
    unprotected: bool,
    words: Sequence[str],
) -> None:
    """Run any Linux program with its connections kept alive past the loss of a node.

    Every TCP connect of PROGRAM, and of what it starts, is made with this library's dialling: a
    silent endpoint is raced by further dials, dead connections are ended within seconds. Any
    language, static binaries too; no root, no change to the program.

    PATTERN is host:port, a network, or a glob, such as '10.96.0.0/12' or 'db.shop.svc:5432'.
    Settings also come from the environment (OUTLAST_ONLY, OUTLAST_SKIP, OUTLAST_TARGETS,
    OUTLAST_CONNECT_TIMEOUT, ...) and from a TOML file; what is written here wins.
    """
    try:
        settings = read_settings(
            config=config,
            only=only or None,
            skip=skip or None,
            targets=dict(map(_pair, targets)) or None,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{config}: {error.strerror}") from error
    if not sys.platform.startswith("linux"):
        _elsewhere(words, unprotected=unprotected)
    from outlast.shims.run.front import Wish, run  # what only Linux has is loaded there only

    run(Wish(words, settings, explain, unprotected, io_uring == "allow"))


def _elsewhere(words: Sequence[str], *, unprotected: bool) -> NoReturn:
    """There are no system calls to hear of on other systems."""
    why = f"outlast run: needs Linux; this is {sys.platform}."
    if not unprotected:
        other = "`outlast forward` and outlast.install() work here"
        click.echo(f"{why} Nothing was started; {other}.", err=True)
        sys.exit(NOT_BEGUN)
    click.echo(f"{why} {words[0]} runs unprotected.", err=True)
    os.execvp(words[0], list(words))


def _pair(text: str) -> tuple[str, str]:
    destination, mark, target = text.partition("=")
    if not (mark and destination and target):
        raise click.UsageError(
            f"--target: {text!r} is no DESTINATION=TARGET, such as "
            "'10.96.0.10:80=static://10.0.0.1:80,10.0.0.2:80'"
        )
    return destination, target
