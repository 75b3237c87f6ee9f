"""The JSON objects of answers, as types: mypy checks the handlers against them, and docs/openapi.json shows them.

Each module has the objects of the module with the same name in `routes`. This one has those of every route.
"""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.errors import BY_CODE
from sm.wire_types.fields import words

ErrorCode = Annotated[str, words(sorted(BY_CODE))]


class EmptyView(TypedDict):
    """No fields."""


class ErrorBody(TypedDict):
    code: ErrorCode
    message: Annotated[str, doc("The failure.")]
    hint: Annotated[str | None, doc("The command to type next.")]
    retry_after_s: NotRequired[
        Annotated[float, doc("With `rate_limited`: the seconds to wait before the next try.")]
    ]
    directory: NotRequired[
        Annotated[str, doc("With `directory_not_trusted`: the absolute path of the directory.")]
    ]


class ErrorView(TypedDict):
    """The body of every answer that is not a success."""

    error: ErrorBody
