"""The query of a request: the base model of its parameters, and times in it."""

from typing import Annotated, Any, ClassVar, Self

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict

from sm.core.timestamps import epoch_s, iso
from sm.errors import UsageError
from sm.wire_types.fields import narrowed


def _moment(text: str) -> str:
    try:
        return iso(epoch_s(text))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is not a time", "use ISO 8601: 2026-01-31T10:00:00Z") from None


Moment = Annotated[str, AfterValidator(_moment), narrowed("string", format="date-time")]
"""A time, normalized so that times compare as texts. Raises UsageError."""


class Query(BaseModel):
    """The model of a request's query. A missing parameter has its default; unknown parameters are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)
    declared: ClassVar[type[Any] | None] = None
    """The dataclass from which the model was made."""

    @classmethod
    def of(cls, request: web.Request) -> Self:
        """The parameters of the request; of a repeated parameter the first. Raises UsageError."""
        given = request.query
        return cls.model_validate({name: given[name] for name in cls.model_fields if name in given})
