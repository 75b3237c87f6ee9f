"""Makes the requests to the daemon by which actions of `sm top` are carried out. They wait, so call them in threads."""

import asyncio
from collections.abc import Callable

from sm.board import ApiCall, BoardAction, Target
from sm.cli.worktrees import Removal, unsaved_work_of
from sm.client.environment import environment
from sm.client.http import START_TIMEOUT_S, TIMEOUT_S, Client, new_key, session_path
from sm.core.message_lines import outcome
from sm.core.states import OPEN_STATES
from sm.errors import SmError
from sm.linux.process_limits import soft_limits

_DELIVERY_S = 5


async def carry_out(
    client: Client, action: BoardAction, target: Target, call: ApiCall, tell: Callable[[str], object]
) -> str:
    """Carry out the action, and return its result. `tell`: takes the news before. Raises SmError for a refusal."""
    if call.recipients:
        return await asyncio.to_thread(_broadcast, client, call)
    if action.name == "rm" and target.session_id is not None:
        await asyncio.to_thread(_refuse_unsaved_work, client, target.session_id)
    body, key = call.body, new_key()
    if action.name == "spawn":
        body = {**body, "environment": environment(), "process_limits": soft_limits()}
    timeout_s = START_TIMEOUT_S if call.is_long else TIMEOUT_S
    answer = await asyncio.to_thread(client.post, call.path, body, key=key, timeout_s=timeout_s)
    match action.name:
        case "rm":
            return await asyncio.to_thread(Removal(call.path, key, answer).clean, client) or ""
        case "send":
            tell(outcome(answer, must_arrive=False))
            if answer["status"] in OPEN_STATES:
                path = f"/v1/messages/{answer['message_id']}"
                answer = await asyncio.to_thread(client.get, path, {"wait_s": _DELIVERY_S})
            return outcome(answer, must_arrive=False)
        case _:
            return ""


def _refuse_unsaved_work(client: Client, session_id: str) -> None:
    """Raise IllegalState if the session has work that exists nowhere else, as `sm rm` does."""
    work = unsaved_work_of(client, client.get(session_path(session_id)))
    if work is not None:
        raise work.refusal()


def _broadcast(client: Client, call: ApiCall) -> str:
    """Send to each recipient, and say how many messages the daemon has taken."""
    failures = list[str]()
    for body in call.bodies:
        try:
            client.post(call.path, body)
        except SmError as error:
            failures.append(error.message)
    return call.sent_words(failures)
