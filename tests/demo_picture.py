"""Draws the picture of the README, in which a person uses `sm`: `python -m tests.demo_picture` writes it.

The agents are those of `sm demo`. Only their IDs and the times differ from run to run; a test compares everything else.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sm.cli.commands import demo
from tests.instance import Instance, until
from tests.typist import Typist

PICTURE = Path("docs/demo.svg")
WIDTH = 104
_PACE_S = 0.1
# Without the web font that rich names: a README's picture loads nothing from elsewhere.
SVG_FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def _steps(instance: Instance) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Each command, and the condition in which the person types it."""

    def at_once() -> bool:
        return True

    def builder_asks() -> bool:
        ended = [s for s in instance.json("all") if s["status"] in ("completed", "error")]
        return len(instance.json("requests")) == 1 and len(ended) == 3

    def builder_works_again() -> bool:
        return not instance.sm("ls", "--quiet")

    yield 'sm spawn Builder "Build the login page" --name login', at_once
    yield 'sm spawn Tester "Test the login page" --name login', at_once
    yield 'sm spawn Fetcher "Fetch the icons" --name icons', at_once
    yield "sm ls --all", builder_asks
    yield "sm requests r1", at_once
    yield "sm answer r1 blue", at_once
    yield "sm events builder-login --limit 6", builder_works_again


def record() -> Iterator[tuple[str, str]]:
    """Each command of the person, and its output with colours."""
    config = demo.configuration("test", _PACE_S)
    with Instance(config=json.dumps(config)) as instance:
        terminal = Typist(instance.env, instance.work, width=WIDTH)
        for command, condition in _steps(instance):
            until(condition, f"the person can type: {command}")
            code, output = terminal.type(command)
            assert code == 0, (command, output)
            yield command, output
        terminal.end()


def draw() -> str:
    """The picture as SVG."""
    with open("/dev/null", "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        for number, (command, output) in enumerate(record()):
            is_spawn = command.startswith("sm spawn")
            if number and not is_spawn:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(output.rstrip()), end="\n")
        return console.export_svg(title="sm", code_format=SVG_FORMAT, unique_id="demo")


def stable_text(picture: str) -> list[str]:
    """The lines of text in a picture, without what differs from run to run: IDs, times, ages and widths."""
    rows: dict[str, str] = {}
    for y, text in re.findall(r'<text class="demo-[^>]*? y="([^"]*)"[^>]*>([^<]*)</text>', picture):
        rows[y] = f"{rows.get(y, '')} {html.unescape(text)}"
    lines = "\n".join(rows[y] for y in sorted(rows, key=float))
    lines = re.sub(r"\b[0-9a-f]{8}\b", "ID", lines)
    lines = re.sub(r"\d\d:\d\d(:\d\d)?", "TIME", lines)
    lines = re.sub(r"\b\d+[smh]\b", "AGE", lines)
    return [" ".join(line.split()) for line in lines.splitlines() if line.strip()]


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
