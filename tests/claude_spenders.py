"""Background agents of the real Claude Code that spend a known amount in each step, until they are stopped."""

from tests.scripted_api import Request, ScriptedApi, tool

STEP_TOKENS = 2_000
"""Input and output of each message."""


def launch(agents: int, name: str) -> str:
    """A prompt whose turn starts so many background agents, and ends."""
    calls = "".join(
        tool(
            "Agent",
            description=f"agent {number}",
            prompt=f"spender {name} {number}",
            subagent_type="general-purpose",
            run_in_background=True,
        )
        for number in range(agents)
    )
    return f"begin {name} {calls}[[then]][[text:launched]]"


def spender(request: Request) -> str | None:
    """A model function: an agent that works in steps of a second for ever."""
    if not request.agent_id or "spender " not in " ".join(request.user_texts):
        return None
    return (
        f"{tool('Bash', command='sleep 1', description='a step')}[[usage:input={STEP_TOKENS - 10},output=10]]"
    )


def spend(api: ScriptedApi, name: str) -> list[Request]:
    """The complete answers to the background agents of this name."""
    return [
        request
        for request in api.turns()
        if request.agent_id
        and request.answer is not None
        and request.answer.whole
        and f"spender {name} " in " ".join(request.user_texts)
    ]
