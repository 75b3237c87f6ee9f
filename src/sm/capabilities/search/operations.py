"""The operation of search. Standard library alone; `finding` carries it out."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Most, Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF
from sm.wire_types.fields import Time
from sm.wire_types.search import FoundView, SearchType


@dataclass(frozen=True, slots=True)
class SearchedWords:
    """The words to look for, and limits of the search."""

    words: str = ""
    """All of them must occur; `word*` matches words that begin with it."""
    type: SearchType | None = None
    """Only texts of this type."""
    since: Time | None = None
    """Only texts from this time on."""
    limit: Annotated[int, Most(1_000)] = 20


FIND = Operation(
    "search",
    "Find texts of the sessions that the caller may read, best first.",
    "GET /v1/search",
    list[FoundView],
    SearchedWords,
    audience=EVERY_CALLER,
    rules=(READ_ALSO_ITSELF,),
    command="search WORDS",
)
OPERATIONS = (FIND,)
