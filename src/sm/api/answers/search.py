"""The JSON objects in the answer of the route of the search."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.sessions import SessionLabel
from sm.api.fields import doc
from sm.core.search_types import SearchType
from sm.wire_types.fields import Time


class FoundView(TypedDict):
    """A text with the words of a search."""

    session_id: str
    label: SessionLabel
    status: str
    type: SearchType
    at: Time
    excerpt: Annotated[str, doc("The part of the text around the words, in one line.")]
