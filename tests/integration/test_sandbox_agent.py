"""The commands of agents inside a container: a parent and its child talk to each other and to the operator."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.instance import Instance
from tests.integration.test_sandbox import open_instance, read_later
from tests.waits import until

CHILD = (
    'sm inbox --take --wait --timeout 600 --json > child-inbox.json; sm note "child works"; '
    'sm send $SM_PARENT_ID "hello parent" && sm complete "child done"; sleep 1000'
)
PARENT = f"""
run() {{ out=$1; shift; "$@" > $out.new 2>> errors || echo "$out: exit $?" >> errors; mv $out.new $out; }}
run child.json sm spawn Sh '{CHILD}' --name helper --json
# Notices about the child may come first.
take() {{ until grep -q "$2" $1 2> /dev/null; do run taken.json sm inbox --take --wait --timeout 600 --json
    jq -c .[] taken.json >> $1; done; }}
child=$(jq -r .session_id child.json)
run me.json sm me --json
run children.json sm children --json
run progress.json sm progress $child --json
run note.txt sm note "waits for the helper"
run sent.json sm send $child "hello child" --json
take inbox.json "hello parent"
run wait.json sm wait $child --timeout 600 --json
run asked.json sm ask "Which colour?" --option red --option blue --json
run requests.json sm requests --json
take answered.json "blue"
run answer.txt sm ask "Which size?" --wait 600
run done echo done
sleep 1000
"""


@pytest.fixture
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image)
    yield instance
    instance.end()


def answer(instance: Instance, question: str, text: str) -> None:
    """Answer a question as the operator, as soon as an agent asks it."""

    def look() -> dict[str, Any] | None:
        asked = instance.get("/v1/requests")
        return next((request for request in asked if question in json.dumps(request)), None)

    instance.sm("answer", until(look, f"an agent asks {question!r}")["request_id"], text)


def test_commands_of_agents_work_inside_of_the_container(instance: Instance) -> None:
    parent = instance.spawn("Sh", PARENT, "--workspace", "shop")["session_id"]
    read_later(instance.work / "requests.json")  # the answer ends the request
    answer(instance, "Which colour?", "blue")
    answer(instance, "Which size?", "large")
    read_later(instance.work / "done")
    assert (instance.work / "errors").read_text() == ""

    def read(name: str) -> Any:
        return json.loads((instance.work / name).read_text())

    child = read("child.json")["session_id"]
    assert read("me.json")["session_id"] == parent
    assert [session["session_id"] for session in read("children.json")] == [child]
    assert read("progress.json")["session_id"] == child
    assert instance.session(parent)["note"] == "waits for the helper"
    assert instance.session(child)["note"] == "child works"
    [received] = read("child-inbox.json")
    assert (received["from"], received["text"]) == (parent, "hello child")
    taken = [json.loads(line) for line in (instance.work / "inbox.json").read_text().splitlines()]
    assert [message["text"] for message in taken if message["from"] == child] == ["hello parent"]
    [waited] = read("wait.json")
    assert (waited["session_id"], waited["status"], waited["completion_message"]) == (
        *(child, "completed", "child done"),
    )
    assert [request["request_id"] for request in read("requests.json")] == [read("asked.json")["request_id"]]
    assert "blue" in (instance.work / "answered.json").read_text()
    assert (instance.work / "answer.txt").read_text() == "large\n"
    assert instance.session(child)["effective_mode"] == "sandboxed"
