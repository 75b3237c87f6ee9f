"""The base of every section of config.yaml, also for capabilities: `config` imports their settings."""

import re
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

Keys = TypeVar("Keys", bound="Section")


def without_nul(value: str) -> str:
    """The text, which JSON output can contain. Raises ValueError."""
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    if re.search("[\ud800-\udfff]", value):  # YAML can contain them, but JSON output cannot
        raise ValueError("must not contain a surrogate character (U+D800 to U+DFFF)")
    return value


class Section(BaseModel):
    """Keys with their defaults. Docstrings below keys become comments in config.yaml.example (example.py)."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _empty_section(cls, data: object) -> object:
        """Give an empty section (`tmux:` without content) its defaults."""
        return {} if data is None else data

    def with_keys(self, type: type[Keys]) -> Keys:
        """The section with the type of keys that a capability has added to it."""
        if not isinstance(self, type):
            raise TypeError(f"{self.__class__.__name__} has no keys of {type.__name__}")
        return self
