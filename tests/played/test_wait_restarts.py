"""A parent that waits for its children with `sm wait` hears of each ending once, whatever ends the wait."""

from tests.sim.stage import BOX, Stage, until

SETTINGS = "daemon: {ignore_evidence: [screen, title]}\n"
UNTIL_FILE = "while [ ! -e {name} ]; do sleep 0.05; done"


def test_endings_are_told_once_when_the_daemon_is_killed_during_a_wait_for_two_children() -> None:
    with Stage(SETTINGS, BOX) as stage:
        parent = stage.agent()
        parent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{parent.id}-1")
        stage.in_status(parent.id, "running")
        first, second, third = (
            stage.spawn("Sh", UNTIL_FILE.format(name=name), "--parent", parent.id)["session_id"]
            for name in ("first", "second", "third")
        )
        waiting = stage.start_command("wait", first, second, env={"SM_SESSION_ID": parent.id})
        stage.kill_daemon()
        (stage.work / "first").touch()
        stage.run("daemon", "start")
        stage.ended(first)
        # The operator's own notices take as long as those of the parent would.
        own = stage.spawn("Sh", "exit 3")["session_id"]
        until(lambda: own in stage.sm("inbox"), "the notice of the operator")
        (stage.work / "second").touch()
        out, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 0, err
        assert first in out
        assert second in out
        (stage.work / "third").touch()
        until(lambda: any(third in text for text in stage.messages(parent)), "the notice of the third child")
        assert not [text for text in stage.messages(parent) if first in text or second in text]


def test_ending_is_told_in_the_inbox_when_the_wait_for_the_child_was_given_up_meanwhile() -> None:
    with Stage(SETTINGS, BOX) as stage:
        parent = stage.agent("Inbox").id
        env = {"SM_SESSION_ID": parent}
        child = stage.spawn("Sh", UNTIL_FILE.format(name="go"), "--parent", parent)["session_id"]
        wait = stage.start_command("wait", child, env=env)
        assert stage.in_status(parent, "idle")["status_reason"] == "waits for 1 session"
        inbox = stage.start_command("inbox", "--take", "--wait", env=env)
        stage.wait(5)
        wait.kill()
        stage.wait(5)
        assert stage.session(parent)["status_reason"] == "waiting for messages (sm inbox --wait)"
        (stage.work / "go").touch()
        out, err = inbox.communicate(timeout=60)
        assert inbox.returncode == 0, err
        assert f"child sh-{child} ({child}) completed" in out
