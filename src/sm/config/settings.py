"""Validates the sandbox settings of a workspace, which a person gives as KEY=VALUE, and applies them."""

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sm.config.loading import sentence
from sm.config.model import Config
from sm.config.sandbox import SandboxOptions, SandboxSection, bytes_of
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable, UsageError

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
        return SandboxOptions.model_validate(settings).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        is_key_unknown = any(detail["type"] == "extra_forbidden" for detail in errors)
        hint = f"known keys: {', '.join(SandboxOptions.model_fields)}" if is_key_unknown else None
        mistakes = "; ".join(map(_mistake, errors))
        raise UsageError(f"invalid sandbox settings: {mistakes}", hint) from None


def _mistake(detail: ErrorDetails) -> str:
    key, *place = detail["loc"]
    dotted = ".".join(map(str, (key, *place)))
    if key in SandboxSection.model_fields.keys() - SandboxOptions.model_fields.keys():
        return f"{dotted}: can only be set in config.yaml, for all workspaces"
    # `sentence` expects the path in config.yaml.
    return f"{dotted}: {sentence({**detail, 'loc': ('sandbox', key, *place)})}"


def sandbox_for(config: Config, workspace: Workspace | None) -> SandboxSection:
    """The settings of a container: `sandbox:` with the overrides of the workspace, if there is one.

    Raises SandboxUnavailable if an override is invalid, for example because an earlier version stored it.
    """
    changes: dict[str, Any] = {}
    if workspace is not None:
        # The database has lists where the model has tuples.
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in workspace.sandbox.items()}
        try:
            options = SandboxOptions.model_validate(given)
        except ValidationError as error:
            mistake = error.errors(include_url=False)[0]
            key = mistake["loc"][0]
            raise SandboxUnavailable(
                f"workspace {workspace.slug} has an invalid sandbox setting: {_mistake(mistake)}",
                f"sm workspace set {workspace.slug} --sandbox {key}=",
            ) from None
        changes = {key: getattr(options, key) for key in options.model_fields_set}
    settings = config.sandbox.model_copy(update=changes)
    if bytes_of(settings.memory_reservation) > bytes_of(settings.memory):
        return settings.model_copy(update={"memory_reservation": settings.memory})
    return settings
