"""Show the version.

\b
Examples:
  sm version
"""

import click

from sm import __version__


@click.command(help=__doc__)
def command() -> None:
    click.echo(f"sm {__version__}")
