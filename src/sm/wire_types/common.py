"""The JSON objects that answers of all parts have: one without content, and the refusal."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.errors import BY_CODE
from sm.wire_types.fields import words
from sm.wire_types.sparse import LEFT_OUT, Sparse

ErrorCode = Annotated[str, words(sorted(BY_CODE))]


@dataclass(frozen=True, slots=True)
class EmptyView:
    """No fields."""


@dataclass(frozen=True, slots=True)
class ErrorBody(Sparse):
    code: ErrorCode
    message: str
    """The failure."""
    hint: str | None
    """The command to type next."""
    retry_after_s: float = LEFT_OUT
    """With `rate_limited`: the seconds to wait before the next try."""
    directory: str = LEFT_OUT
    """With `directory_not_trusted`: the absolute path of the directory."""
