"""The reference of all commands in docs/reference/commands.md: `python -m tests.command_reference` writes it."""

import re
import textwrap
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from sm.cli.group import ALIASES, COMMANDS, sm

DOCUMENT = Path("docs/reference/commands.md")
HEAD = """# Commands

<!-- written by: python -m tests.command_reference -->

Every command of `sm`, as `sm COMMAND --help` describes it. All of them have the option `-h, --help`.
"""
_WIDTH = 120
_ALWAYS = "--help"


def document() -> str:
    """The whole of docs/reference/commands.md."""
    root = click.Context(sm, info_name="sm")
    lines = [HEAD, *_about(sm)]
    sections = list(dict.fromkeys(section for section, _, _ in COMMANDS))
    for section in sections:
        lines += [f"\n**{section}**\n"]
        lines += [
            f"- [sm {name}](#sm-{name}): {_plain(line)}" for group, name, line in COMMANDS if group == section
        ]
    for section in sections:
        lines.append(f"\n## {section}")
        for group, name, _ in COMMANDS:
            if group == section:
                command = sm.get_command(root, name)
                assert command is not None, name
                lines += _entry(command, click.Context(command, parent=root, info_name=name), 3)
    return "\n".join(lines) + "\n"


def _entry(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    path = context.command_path
    yield f"\n{'#' * level} {path}\n"
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield from _about(command)
    others = [alias for alias, name in ALIASES.items() if path == f"sm {name}"]
    if others:
        yield f"\nAlso: {', '.join(f'`sm {alias}`' for alias in others)}."
    records = [
        record
        for param in command.get_params(context)
        if _ALWAYS not in param.opts and (record := param.get_help_record(context)) and record[1]
    ]
    if records:
        yield "\n| option | meaning |\n|---|---|"
        yield from (f"| {_code(names)} | {_cell(meaning)} |" for names, meaning in records)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _entry(inner, click.Context(inner, parent=context, info_name=name), level + 1)


def _about(command: click.Command) -> Iterator[str]:
    """The help of a command. Paragraphs that click does not wrap (after `\\b`) become code blocks."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        first = "\n" if number else ""
        if not paragraph.startswith("\b\n"):
            text = " ".join(paragraph.split())
            yield first + textwrap.fill(_plain(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
            continue
        title, _, block = paragraph.removeprefix("\b\n").partition("\n")
        language = "sh" if title == "Examples:" else "text"
        yield f"{first}{_plain(title)}\n\n```{language}\n{textwrap.dedent(block)}\n```"


def _plain(text: str) -> str:
    """The text with its Markdown characters escaped."""
    return re.sub(r"([\\`*<\[\]]|~~)", r"\\\1", text)


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
