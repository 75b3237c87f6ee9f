"""Answers dialogs with the rules of the configuration (auto_allow, auto_deny) and of rules.yaml."""

import asyncio
import os.path
from collections.abc import Sequence

from sm.core.models import Session
from sm.core.requests import BY_RULE, Answer
from sm.policy.tool_rules import PathContext, evaluate
from sm.providers.base import Provider
from sm.providers.readers import Dialog
from sm.state.request_steps import RuleDecision


def rule_decision(
    provider: Provider,
    session: Session,
    dialog: Dialog,
    real_dir: str,
    always: Sequence[str],
    *,
    cut: bool,
) -> RuleDecision | None:
    """The decision of the rules for the session's agent type, or None if a person decides.

    `real_dir`: the session's working directory, from `real_directory`. `always`: the rules of rules.yaml for the
    session. `cut`: the arguments are incomplete.
    """
    agent = provider.agent_config(session.agent_type)
    own, deny = ((), ()) if agent is None else (agent.auto_allow, agent.auto_deny)
    place = PathContext(dialog.working_dir or session.working_dir, (session.working_dir, real_dir))
    verdict = evaluate((*own, *always), deny, dialog.tool, dialog.arguments, place, cut=cut)
    if verdict is None:
        return None
    is_written = verdict.approved and verdict.rule not in own
    why = written_reason(verdict.rule) if is_written else verdict.why
    return RuleDecision(Answer(verdict.approved), BY_RULE, why)


def written_reason(rule: str) -> str:
    """The reason of an answer by a rule of rules.yaml."""
    return f"rules.yaml: {rule}"


async def real_directory(session: Session | None) -> str:
    """The session's working directory without links: agents may name files by it when rules do not."""
    return "" if session is None else await asyncio.to_thread(os.path.realpath, session.working_dir)
