"""Evaluates the permission rules for one tool call: True approved, False denied, None left to a person."""

from collections.abc import Mapping
from typing import Any

from sm.policy.tool_rules import PathContext, evaluate

DIR = "/srv/shop"


def decide(
    tool: str,
    arguments: Mapping[str, Any],
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    *,
    working_dir: str = DIR,
    bases: tuple[str, ...] = (),
    cut: bool = False,
) -> bool | None:
    ruling = evaluate(allow, deny, tool, arguments, PathContext(working_dir, bases), cut=cut)
    return None if ruling is None else ruling.approved


def decide_command(
    command: object, allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), **more: Any
) -> bool | None:
    return decide("Bash", {"command": command, **more}, allow, deny)
