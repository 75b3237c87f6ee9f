"""`sm service` writes and removes a systemd user unit. No user's systemd runs here."""

import json
import os
from pathlib import Path

from tests.played.cli.command import Sm

UNIT = ".config/systemd/user/sm.service"


def test_service_install_writes_the_unit_and_names_the_commands_when_systemd_is_unreachable(
    run: Sm, home: Path
) -> None:
    done = run("service", "install")
    unit = (home / UNIT).read_text()
    assert f'Environment="SM_HOME={home}"\n' in unit
    assert f'Environment="PATH={os.environ["PATH"]}"\n' in unit
    assert "\nKillMode=process\n" in unit and "\nOOMPolicy=continue\n" in unit
    assert unit.count("ExecStart=") == 1 and '"daemon" "run"\n' in unit
    assert f"wrote {home / UNIT}; " in done.out
    assert "systemctl --user enable --now sm.service" in done.out
    again = json.loads(run("service", "install", "--json").out)
    assert again == {"file": str(home / UNIT), "started": False}
    assert [path.name for path in (home / UNIT).parent.iterdir()] == ["sm.service"]


def test_service_uses_systemctl_when_the_users_systemd_answers(run: Sm, home: Path) -> None:
    recorder = home / "bin" / "systemctl"
    recorder.parent.mkdir()
    recorder.touch(0o755)
    run.tools.installed[str(recorder)] = lambda argv: (0, "")
    environ = {"PATH": f"{recorder.parent}:{os.environ['PATH']}"}
    assert run("service", "install", environ=environ).out == f"wrote {home / UNIT}; the service runs\n"
    assert run("service", "remove", environ=environ).out == f"removed {home / UNIT}\n"
    assert not (home / UNIT).exists()
    assert run("service", "remove", environ=environ).out == "the service is not installed\n"
    assert [" ".join(arguments) for _, *arguments in run.tools.calls] == [
        "--user daemon-reload",
        "--user enable --now sm.service",
        "--user disable --now sm.service",
        "--user daemon-reload",
    ]


def test_service_is_refused_to_a_session(run: Sm, home: Path, state: Path) -> None:
    for action in ("install", "remove"):
        run("service", action, environ=run.as_session(state), code=5)
    assert not (home / UNIT).exists()
