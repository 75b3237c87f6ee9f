"""Decides about a long and old conversation that claude resumes: claude may ask for a summary first. Pure.

Source: claude 2.1.197 and 2.1.332. The question depends on the account. It comes when the last message is older than
70 minutes and the conversation has 100,000 tokens or more; two variables move these limits. 2.1.332 asks only if it
has a summary already, which no restored agent of sm was seen to have: tests/integration/test_claude_restore.py has
what each choice does with both versions.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from sm.providers.claude.dialect import current

ResumeChoice: TypeAlias = Literal["full", "summary", "ask"]


def resume_environment(choice: ResumeChoice) -> Mapping[str, str]:
    """The variables with which claude does not ask, unless the operator wants the question."""
    return {} if choice == "ask" else current().table("environment.resumes_whole")
