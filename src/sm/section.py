"""The base of every section of config.yaml."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

Keys = TypeVar("Keys", bound="Section")


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
