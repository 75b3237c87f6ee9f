"""The JSON objects that the daemon answers with, for every door. Standard library alone."""

from typing import Annotated, TypeAlias

TIME = "date-time"
"""The format of a time in JSON schemas: ISO 8601, UTC."""
Time: TypeAlias = Annotated[str, TIME]
