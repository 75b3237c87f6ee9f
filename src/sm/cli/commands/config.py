"""Show the configuration in effect.

As YAML, with every key that has a default; a comment says which file it came from. Nothing is sent to the daemon,
which reads the file when it starts: sm daemon restart.

\b
Example:
  sm config --check
"""

import os

import click

from sm.cli.display.errors import print_warnings
from sm.cli.display.text import plain_line
from sm.cli.instance import Instance
from sm.errors import UsageError


@click.command(help=__doc__)
@click.option("--path", "path_only", is_flag=True, help="Print only where the file is or would be.")
@click.option("--example", is_flag=True, help="Print an example with every key, its meaning and its default.")
@click.option("--check", is_flag=True, help="Only check the file; exit code 2 with every error in it.")
def command(path_only: bool, example: bool, check: bool) -> None:
    if path_only + example + check > 1:
        raise UsageError("--path, --example and --check exclude each other")
    path = Instance(os.environ).places.config
    if path_only:
        click.echo(path)
        return
    from sm import config

    if example:
        click.echo(config.example(), nl=False)
        return
    loaded = config.load(path)
    print_warnings(loaded.warnings)
    source = path if os.path.lexists(path) else f"{path}, which is not there: these are the defaults"
    if check:
        click.echo(f"ok: {source}")
        return
    import yaml

    text = yaml.safe_dump(loaded.config.model_dump(mode="json"), sort_keys=False, allow_unicode=False)
    click.echo(f"# {plain_line(source)}\n{text}", nl=False)
