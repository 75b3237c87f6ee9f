"""Show the version.

\b
Example:
  sm version
"""

import click

from sm import __version__


@click.command(help=__doc__)
def command() -> None:
    click.echo(f"sm {__version__}")
