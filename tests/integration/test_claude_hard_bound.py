"""A spent budget of the real Claude Code with background agents: they stop at its hard bound, before the grace time."""

import os
import sys

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.claude_spenders import STEP_TOKENS, launch, spend, spender
from tests.instance import until
from tests.scripted_api import ScriptedApi
from tests.waits import PATIENT

api = scripted_api("module", spender)
claudes = claude_instance("module", more="budgets: {grace_s: 3600}")

_LIMIT = 100_000
_AGENTS = 6


def test_background_agents_of_a_spent_budget_stop_at_its_hard_bound(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    """SM_BUDGET_RUNS: how many runs, 1 by default."""
    for number in range(int(os.environ.get("SM_BUDGET_RUNS", "1"))):
        session_id = claudes.spawn("Editor", "--budget", f"tokens={_LIMIT}", "--wait", PATIENT)["session_id"]
        claudes.idle(session_id)
        name = f"run{number}"
        claudes.prompt(session_id, launch(_AGENTS, name))

        def settled(session_id: str = session_id) -> bool:
            pause = claudes.session(session_id)["paused"]
            return bool(pause is not None and pause["state"] == "paused")

        until(settled, "the session is seen to spend nothing")
        budget = claudes.json("budget", session_id)["budget"]
        assert (budget["state"], budget["unstopped"]) == ("stopped", 0)
        assert "its sessions are stopped" in claudes.sm("budget", session_id)
        true = len(spend(api, name)) * STEP_TOKENS
        sys.stdout.write(f"{name}: {true} tokens of {_LIMIT}, {true / _LIMIT - 1:.1%} after the limit\n")
        # The hard bound of 120%, and one message of each agent at work: the main agent's is small.
        assert true <= 1.2 * _LIMIT + (_AGENTS + 1) * STEP_TOKENS
        claudes.sm("kill", session_id)
        assert len(spend(api, name)) * STEP_TOKENS == true
