"""`sm config`: effective configuration, example and check."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sm.config import load
from tests.played.cli.command import Sm
from tests.sim.tools import Tool

WRITTEN = """
default_trust: direct
tmux: {socket_name: mine}
commands:
  Reviewer: {command: [python3, "rev iew.py"], env: {DEPTH: "2", UMLAUT: "ä\\u009b"}}
"""


@pytest.fixture
def written(home: Path) -> Path:
    path = home / "config.yaml"
    path.write_text(WRITTEN)
    return path


def test_config_path_prints_the_path_when_file_is_missing(run: Sm, home: Path) -> None:
    assert run("config", "--path").out == f"{home}/config.yaml\n"


def test_config_prints_a_file_that_loads_as_the_same_configuration(
    run: Sm, written: Path, home: Path
) -> None:
    out = run("config").out
    assert out.splitlines()[0] == f"# {written}"
    assert "history_limit: 50000" in out
    assert "\x9b" not in out
    again = home / "again.yaml"
    again.write_text(out)
    assert load(str(again)).config == load(str(written)).config


def test_config_prints_defaults_when_file_is_missing(run: Sm, home: Path) -> None:
    out = run("config").out
    assert f"# defaults ({home}/config.yaml does not exist)" in out
    assert "default_trust: sandboxed" in out


def test_config_check_accepts_the_example(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text(run("config", "--example").out)
    assert run("config", "--check").out == f"ok: {home}/config.yaml\n"


def test_config_check_lists_all_mistakes_with_line_and_column(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("tmux: {width: wide}\ndefault_trsut: direct\n")
    done = run("config", "--check", code=2)
    assert "1:15" in done.err
    assert "2:1" in done.err
    assert "default_trust" in done.err, "the hint names the nearest key"
    assert done.out == ""
    assert run("config", code=2).err == done.err


def test_config_check_warns_about_keys_without_effect(run: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("commands: {A: {command: [x], env: {SM_TRUST_LEVEL: direct}}}\n")
    done = run("config", "--check")
    assert done.err.startswith("warning: ")
    assert "commands.A.env.SM_TRUST_LEVEL" in done.err


def test_config_refuses_two_modes_at_once(run: Sm) -> None:
    assert "cannot be used together" in run("config", "--path", "--example", code=2).err


def editor(run: Sm, *texts: str) -> dict[str, str]:
    """An editor that writes the next text at each call, and remembers what it found."""
    home = run.instance.home
    left = list(texts)

    def edit(argv: Sequence[str]) -> tuple[int, str]:
        assert argv[1] == "--wait"
        draft = Path(argv[2])
        (home / f"found-{len(texts) - len(left)}").write_bytes(draft.read_bytes())
        draft.write_text(left.pop(0))
        return 0, ""

    return {"VISUAL": f"{installed(run, edit)} --wait", "EDITOR": "false"}


def installed(run: Sm, edit: Tool) -> str:
    """Install an editor. Returns its path."""
    program = run.instance.home / "editor"
    program.touch(0o700)
    run.tools.installed[str(program)] = edit
    return str(program)


def drafts(home: Path) -> list[Path]:
    return sorted(home.glob("config-draft-*"))


def test_config_edit_saves_a_valid_file_with_its_mode(run: Sm, written: Path, home: Path) -> None:
    written.chmod(0o640)
    done = run("config", "edit", environ=editor(run, "default_trust: sandboxed\n"))
    assert done.out == f"saved {written}; the daemon is not running\n"
    assert written.read_text() == "default_trust: sandboxed\n"
    assert (home / "found-0").read_text() == WRITTEN
    assert written.stat().st_mode & 0o777 == 0o640
    assert drafts(home) == []


def test_config_edit_creates_the_file_only_if_something_was_written(run: Sm, home: Path) -> None:
    assert (
        run("config", "edit", environ={"EDITOR": installed(run, lambda argv: (0, ""))}).err
        == f"no changes: {home}/config.yaml\n"
    )
    assert not (home / "config.yaml").exists()
    run("config", "edit", environ=editor(run, "default_trust: direct\n"))
    assert (home / "found-0").read_text().startswith("# The configuration of sm.")
    assert load(str(home / "config.yaml")).config.default_trust == "direct"


def test_config_edit_keeps_the_file_and_the_text_when_it_has_mistakes(
    run: Sm, written: Path, home: Path
) -> None:
    done = run("config", "edit", environ=editor(run, "tmux: {width: wide}\n"), code=2)
    (draft,) = drafts(home)
    assert f"{written}:1:15: tmux.width: " in done.err
    assert f"the configuration is unchanged; your text is in {draft}" in done.err
    assert f"mv {draft} {written}" in done.err
    assert (written.read_text(), draft.read_text()) == (WRITTEN, "tmux: {width: wide}\n")


def test_config_edit_asks_again_on_a_terminal_until_the_text_is_valid(
    run: Sm, written: Path, home: Path
) -> None:
    environ = editor(run, "tmux: {width: wide}\n", "tmux: {width: 100}\n")
    shown = run.screen("config", "edit", typed="y\n", environ=environ)
    assert "tmux.width: " in shown and "Edit again? [Y/n] " in shown
    assert shown.endswith(f"saved {written}; the daemon is not running\n")
    assert (home / "found-1").read_text() == "tmux: {width: wide}\n"
    assert written.read_text() == "tmux: {width: 100}\n"


def test_config_edit_stops_asking_when_the_user_gives_up(run: Sm, written: Path, home: Path) -> None:
    shown = run.screen("config", "edit", typed="n\n", environ=editor(run, "x: 1\n"), code=2)
    assert "your text is in" in shown
    assert written.read_text() == WRITTEN


def test_config_edit_overwrites_no_change_of_another_program(run: Sm, written: Path, home: Path) -> None:
    def edit(argv: Sequence[str]) -> tuple[int, str]:
        written.write_text("default_trust: direct\n")
        Path(argv[1]).write_text("tmux: {}\n")
        return 0, ""

    done = run("config", "edit", environ={"EDITOR": installed(run, edit)}, code=4)
    (draft,) = drafts(home)
    assert f"was changed meanwhile; your text is in {draft}" in done.err
    assert written.read_text() == "default_trust: direct\n"
    assert draft.read_text() == "tmux: {}\n"


def test_config_edit_changes_nothing_when_the_editor_fails(run: Sm, written: Path, home: Path) -> None:
    def edit(argv: Sequence[str]) -> tuple[int, str]:
        Path(argv[1]).write_text("x\n")
        return 3, ""

    environ = {"VISUAL": "", "EDITOR": installed(run, edit)}
    done = run("config", "edit", environ=environ, code=9)
    assert "failed with exit code 3; the configuration is unchanged" in done.err
    assert "cannot run /nowhere/vi" in run("config", "edit", environ={"EDITOR": "/nowhere/vi"}, code=9).err
    assert written.read_text() == WRITTEN
    assert drafts(home) == []


def test_config_edit_writes_the_target_of_a_link(run: Sm, home: Path) -> None:
    target = home / "dotfiles" / "sm.yaml"
    target.parent.mkdir()
    target.write_text(WRITTEN)
    (home / "config.yaml").symlink_to(target)
    run("config", "edit", environ=editor(run, "tmux: {}\n"))
    assert (home / "config.yaml").is_symlink()
    assert target.read_text() == "tmux: {}\n"


def test_config_edit_is_refused_to_a_session(run: Sm, written: Path, state: Path, home: Path) -> None:
    run("config", "edit", environ=run.as_session(state) | editor(run, "tmux: {}\n"), code=5)
    assert written.read_text() == WRITTEN


def test_config_refuses_an_option_before_edit(run: Sm) -> None:
    assert "has no options" in run("config", "--check", "edit", code=2).err
