"""Budgets of the real Claude Code: a grandchild spends that of its grandparent, and goes on after an approval."""

from sm.core.pauses import GO_ON
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module")
claudes = claude_instance("module", more="budgets: {grace_s: 1}")


def test_budget_reached_by_a_grandchild_pauses_the_tree_until_it_is_approved(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    wait = ("--wait", PATIENT)
    top = claudes.spawn("Editor", "--budget", "tokens=100k", *wait)["session_id"]
    child = claudes.spawn("Editor", "--parent", top, *wait)["session_id"]
    grandchild = claudes.spawn("Editor", "--parent", child, *wait)["session_id"]
    tree = (top, child, grandchild)
    for session_id in tree:
        claudes.idle(session_id)
    work = (
        f"{tool('Bash', command='echo a; sleep 100')}[[usage:input=150000,output=10]][[then]][[text:never]]"
    )
    claudes.prompt(grandchild, f"spend-1 {work}")

    def stopped() -> bool:
        budget = claudes.get(f"/v1/sessions/{top}/budget")["budget"]
        return bool(budget["state"] == "stopped")

    until(stopped, "the budget is spent")
    claudes.idle(grandchild)
    assert {claudes.session(session_id)["paused"]["reason"] for session_id in tree} == {
        f"budget of {top} reached"
    }
    (request,) = claudes.json("requests")
    assert (request["kind"], request["session_id"]) == ("budget", top)
    assert request["arguments"]["spent"]["tokens"] >= 150_010
    assert not api.turns(GO_ON)
    claudes.sm("approve", request["request_id"])
    assert claudes.get(f"/v1/sessions/{top}/budget")["budget"]["limits"]["tokens"] == 200_000
    assert [claudes.session(session_id)["paused"] for session_id in tree] == [None, None, None]
    api.wait_for(lambda: bool(api.turns(GO_ON)), "the grandchild goes on")
    claudes.idle(grandchild)
    assert claudes.json("requests") == []
    claudes.sm("kill", "--tree", top)
