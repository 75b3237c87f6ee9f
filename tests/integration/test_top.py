"""`sm top` in real terminals: in a pane of tmux, and one from which it attaches to an agent."""

from tests.instance import SM, Instance
from tests.person_terminal import PersonTerminal
from tests.waits import until


def test_top_shows_sessions_and_takes_keys_in_tmux(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    terminal = instance.tmux_server.new_session(
        "person",
        window_command=f"{SM} top; exec cat",
        x=100,
        y=30,
        environment={"SM_HOME": str(instance.home)},
    )
    pane = terminal.active_pane
    assert pane is not None

    def screen() -> str:
        return "\n".join(pane.capture_pane())

    until(lambda: "sleeper-login" in screen() and "Nothing needs you" in screen(), "the list")
    pane.send_keys("K", enter=False)
    until(lambda: "Kill sleeper-login?" in screen(), "the question")
    pane.send_keys("y", enter=False)
    until(lambda: "killed" in screen(), "the killed session")
    assert instance.ended(agent)["status"] == "killed"
    pane.send_keys("q", enter=False)
    until(lambda: pane.display_message("#{pane_current_command}", get_text=True) == ["cat"], "the end of top")
    until(lambda: pane.display_message("#{alternate_on}", get_text=True) == ["0"], "the normal screen")


def test_top_attaches_to_an_agent_and_comes_back(instance: Instance) -> None:
    instance.spawn("Sleeper", "x", "--name", "login")

    def clients() -> list[str]:
        """The terminals of agents that a person is attached to. The daemon has a client of its own."""
        named = instance.tmux_server.cmd("list-clients", "-F", "#{session_name}").stdout
        return [name for name in named if name.startswith("command-")]

    with PersonTerminal([SM, "top"], instance.env, 100, 30) as person:
        until(lambda: b"sleeper-login" in person.printed, "the list")
        person.press("o")
        until(clients, "a client of the agent's terminal")
        person.press("\x02d")
        until(lambda: not clients(), "the client is detached")
        person.press("q")


def test_keys_typed_at_once_go_to_the_prompt_that_the_first_one_opens(instance: Instance) -> None:
    instance.spawn("Sleeper", "x", "--name", "login")
    with PersonTerminal([SM, "top"], instance.env, 100, 30) as person:
        until(lambda: b"Nothing needs you" in person.printed, "the list")
        person.press("/login")
        until(lambda: b"filter: login" in person.printed, "the filter")
        person.press("\x1b")
        until(lambda: b"filter:" not in person.printed.rpartition(b"order: tree")[2], "the dropped filter")
        person.press("q")


def test_top_tells_the_desktop_what_needs_a_person_who_looks_elsewhere(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login", "--lifecycle", "supervised")["session_id"]
    with PersonTerminal([SM, "top"], {**instance.env, "TERM": "xterm-256color"}, 100, 30) as person:
        until(lambda: b"Nothing needs you" in person.printed, "the list")
        person.press("\x1b[O")  # the terminal has lost the focus
        instance.sm("complete", "built it", env=instance.as_session(agent))
        until(lambda: b"\x1b]9;sleeper-login: proposes its completion" in person.printed, "the notice")
        person.press("q")


def test_top_is_refused_from_a_session(instance: Instance) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    error = instance.refused("top", env=instance.as_session(agent), exit_code=5)
    assert error == "sm: sm top is for people, not for agents\nhint: to list sessions: sm ls\n"


def test_top_needs_a_terminal(instance: Instance) -> None:
    assert "sm top needs a terminal" in instance.refused("top", exit_code=2)
