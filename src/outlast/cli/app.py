"""The command's words: sub-commands, options and their checks, on click.

Refuses unknown and impossible values before anything is started, naming the option and a right
form.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

import outlast
from outlast.cli.forward import forward
from outlast.cli.run import run_command

__all__ = ["app"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(outlast.__version__, prog_name="outlast")
def app() -> None:
    """Keeps a client working when a node behind its Service dies."""


def _picture(_context: click.Context, _parameter: click.Parameter, value: Path) -> Path:
    """A file that can be written, known before the run and not after it."""
    if value.suffix.lower() != ".svg":
        raise click.BadParameter(f"{value} is no .svg file; right: --output outlast-demo.svg")
    if not (value.parent.is_dir() and os.access(value.parent, os.W_OK)):
        raise click.BadParameter(f"{value.parent} is no folder that can be written to")
    return value


@app.command()
@click.option(
    "--seconds",
    type=click.IntRange(5, 100),
    default=50,
    show_default=True,
    help="Length of the run. The node dies at 3 s, its endpoint leaves at 43 s.",
)
@click.option(
    "--connections",
    type=click.Choice(["both", "pooled", "new"]),
    default="both",
    show_default=True,
    help="Show clients that pool their connections, that open a new one each time, or both.",
)
@click.option(
    "--network",
    type=click.Choice(["auto", "kernel", "simulated", "loopback"]),
    default="auto",
    show_default=True,
    help="Where to run: a cluster on this machine's own kernel, a simulated one in virtual time, or"
    " loopback. auto: the kernel, or the simulation where that is not possible.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=Path("outlast-demo.svg"),
    show_default=True,
    callback=_picture,
    help="The picture to write.",
)
def demo(seconds: int, connections: str, network: str, output: Path) -> None:
    """A node dies, live: plain httpx and outlast side by side.

    A Service has two pods on two nodes. Plain httpx and outlast ask it the same question over and
    over. At 3 s one node loses power and nobody is told; the Service goes on sending every second
    new connection there, until the control plane takes the endpoint out at 43 s.

    Shown are a time line of each client, its errors and latencies, the report of outlast's slowest
    request, and a picture of every request (SVG).

    The cluster is made of network namespaces on this machine's kernel: it needs Linux, the program
    nft, and root or unprivileged user namespaces. Elsewhere it is simulated, in virtual time.
    Nothing outside this machine is contacted.
    """
    from rich.console import Console  # other commands begin sooner without all this

    from outlast.cli.demo import CannotRun, DemoSettings, run_demo

    try:
        run_demo(DemoSettings(seconds, connections, network, output), Console(highlight=False))
    except CannotRun as error:
        raise click.ClickException(str(error)) from error


app.add_command(forward)


app.add_command(run_command)
