"""`sm version`."""

import click

from sm import __version__


@click.command()
def command() -> None:
    """Show the version.

    \b
    Example:
      sm version
    """
    click.echo(f"sm {__version__}")
