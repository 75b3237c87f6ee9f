"""The section of config.yaml about turns that failed."""

from typing import Annotated

from pydantic import Field

from sm.section import Section


class RetrySettings(Section):
    max: int = Field(default=3, ge=0, le=100)
    """Maximum number of messages to go on in a row, until a turn succeeds. Then the failure is reported to the parent
    and to you. With 0, sm reports it at once. Each retry costs a turn."""
    backoff_s: Annotated[
        tuple[Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)], ...], Field(min_length=1)
    ] = (30, 120, 600)
    """Seconds before each retry. The last number repeats."""
