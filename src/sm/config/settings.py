"""Validates the sandbox settings of a workspace, which a person gives as KEY=VALUE."""

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from sm.config.model import SandboxOptions
from sm.errors import UsageError

_NO_YAML = (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError)
"""Errors of PyYAML, including those for `2001-99-99`, `!!bool x`, `!!timestamp x` and thousands of brackets."""


def sandbox_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the values of the settings; omit empty values. Raises one UsageError that lists every mistake."""
    settings: dict[str, Any] = {}
    for key, text in given.items():
        if not text:
            continue
        try:
            value = yaml.safe_load(text) if len(text) <= 4096 else text
        except _NO_YAML:
            value = text
        settings[key] = tuple(value) if isinstance(value, list) else value
    try:
        return SandboxOptions(**settings).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        known = ", ".join(SandboxOptions.model_fields)
        mistakes = "; ".join(
            f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors()
        )
        raise UsageError(f"invalid sandbox settings: {mistakes}", f"known keys: {known}") from None
