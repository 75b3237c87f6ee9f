"""The base of every section of config.yaml."""

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """Keys with their defaults. Docstrings below keys become comments in config.yaml.example (example.py)."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _empty_section(cls, data: object) -> object:
        """Give an empty section (`tmux:` without content) its defaults."""
        return {} if data is None else data
