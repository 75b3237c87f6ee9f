"""Show or check the configuration.

Prints the configuration as YAML, including defaults. The daemon reads the file only when it starts; to apply a
change, run sm daemon restart.

\b
Exit codes:
  0  the file is valid, or there is none
  2  the file has errors; each is listed

\b
Examples:
  sm config --check
  sm config --example > config.yaml
"""

import os

import click

from sm.cli.display.errors import print_warnings
from sm.cli.display.text import plain_line
from sm.cli.instance import Instance
from sm.errors import UsageError


@click.command(help=__doc__)
@click.option("--path", "path_only", is_flag=True, help="Print only the path of the file.")
@click.option(
    "--example", is_flag=True, help="Print an example file: every key with its meaning and default."
)
@click.option("--check", is_flag=True, help="Check the file without printing it.")
def command(path_only: bool, example: bool, check: bool) -> None:
    if path_only + example + check > 1:
        raise UsageError("--path, --example and --check cannot be used together")
    path = Instance(os.environ).paths.config
    if path_only:
        click.echo(path)
        return
    from sm import config

    if example:
        click.echo(config.example(), nl=False)
        return
    loaded = config.load(path)
    print_warnings(loaded.warnings)
    source = path if os.path.lexists(path) else f"defaults ({path} does not exist)"
    if check:
        click.echo(f"ok: {source}")
        return
    import yaml

    text = yaml.safe_dump(loaded.config.model_dump(mode="json"), sort_keys=False, allow_unicode=False)
    click.echo(f"# {plain_line(source)}\n{text}", nl=False)
