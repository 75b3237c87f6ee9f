"""A parent that waits for its children with `sm wait` while the daemon is killed hears of each ending once."""

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
