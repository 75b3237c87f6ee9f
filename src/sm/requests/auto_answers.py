"""Answers dialogs with the rules of the configuration (auto_allow, auto_deny)."""

import asyncio
import os.path

from sm.core.models import Session
from sm.core.requests import BY_RULE, Answer
from sm.policy.tool_rules import PathContext, evaluate
from sm.providers.base import Provider
from sm.providers.readers import Dialog
from sm.state.request_steps import RuleDecision


def rule_decision(
    provider: Provider, session: Session, dialog: Dialog, real_dir: str, *, cut: bool
) -> RuleDecision | None:
    """The decision of the rules for the session's agent type, or None if a person decides.

    `real_dir`: the session's working directory, from `real_directory`. `cut`: the arguments are incomplete.
    """
    agent = provider.agent_config(session.agent_type)
    if agent is None:
        return None
    place = PathContext(dialog.working_dir or session.working_dir, (session.working_dir, real_dir))
    verdict = evaluate(agent.auto_allow, agent.auto_deny, dialog.tool, dialog.arguments, place, cut=cut)
    return None if verdict is None else RuleDecision(Answer(verdict.approved), BY_RULE, verdict.why)


async def real_directory(session: Session | None) -> str:
    """The session's working directory without links: agents may name files by it when rules do not."""
    return "" if session is None else await asyncio.to_thread(os.path.realpath, session.working_dir)
