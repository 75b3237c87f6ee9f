"""The kinds of phrases that the rules look for. Pure data."""

import re
from dataclasses import fields

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Phrases of one language: regular expressions without groups that capture, separated by semicolons.

    A blank stands for any white space. Phrases match whole words, in lower case.
    """

    done: str = ""
    """The whole work is finished."""
    work: str = ""
    """A finished piece of work, or a result that shows it."""
    unless: str = ""
    """Before a phrase of `done` or `work` in its clause, these words take the claim back."""
    unfinished: str = ""
    """Work that the agent itself will go on with, or that is left."""
    partial: str = ""
    """Like `unfinished`, but also usual in the answer to a question about the code."""
    waiting: str = ""
    """Work that others do, or that runs in the background."""
    failed: str = ""
    """The agent says that it did not succeed."""
    failing: str = ""
    """A test, a build or a tool failed; a later claim of success cancels it."""
    blocked: str = ""
    """An obstacle that the agent cannot remove."""
    hedge: str = ""
    """The agent has not seen that its work has the wanted effect. Empty if the model alone does as well."""
    ask: str = ""
    """A request for a decision or an answer, without a question mark too."""
    offer: str = ""
    """An offer of more work that needs no answer."""
    inquiry: str = ""
    """Begin of a task whose result is a text: an explanation, a plan, a review."""

    whole_words: bool = True
    """True if phrases match whole words. False without spaces, or with vowel signs that are no letters for `re`."""
    negates_behind: bool = False
    """Words of `unless` also count behind the claim."""

    def phrases(self, kind: str) -> list[str]:
        """The regular expressions of one kind."""
        text: str = getattr(self, kind)
        return [re.sub(r"\n\s*", "", phrase) for part in re.split(r";\s+", text) if (phrase := part.strip())]


KINDS = tuple(field.name for field in fields(Words) if isinstance(field.default, str))
"""The names of the fields with phrases."""
