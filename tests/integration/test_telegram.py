"""The bot in a real daemon, against the Bot API server of the tests: secrets, configuration, and what it loads."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instance import Instance, until
from tests.telegram_api import Fault, Person, TelegramApi
from tests.telegram_fixtures import bot_api, person
from tests.telegram_instance import configure, start

WELCOME = "This chat is connected to sm. /help shows the commands."
MODULES = (
    "import json, sys\n"
    "from sm.daemon.main import main\n"
    "code = main(sys.argv[2:])\n"
    "open(sys.argv[1], 'w').write(json.dumps(sorted(sys.modules)))\n"
    "sys.exit(code)\n"
)
WITHOUT_LIBRARY = (
    "import sys\n"
    "sys.modules['telegram'] = None\n"
    "from sm.daemon.main import main\n"
    "sys.exit(main(sys.argv[1:]))\n"
)


api = bot_api()
ann = person(1001, "Ann")


@pytest.fixture
def instance(api: TelegramApi) -> Iterator[Instance]:
    """An instance with a bot whose first start was before the test."""
    with Instance() as instance:
        configure(instance, api)
        start(instance, api)
        yield instance


def troubles(instance: Instance) -> list[str]:
    found: list[str] = instance.get("/v1/status")["trouble"]
    return found


def test_token_is_in_no_file_log_argument_or_output(
    instance: Instance, api: TelegramApi, ann: Person
) -> None:
    instance.sm("daemon", "stop")
    (instance.state / "stopped").unlink()
    with instance.config.open("a") as file:
        file.write("daemon: {log_level: debug}\n")
    for fault in (Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.BAD_GATEWAY):
        api.fault("*", fault)
    ann.says("/start")
    daemon = instance.start_daemon()
    api.wait_for_message(1001, WELCOME)
    secret = api.token.partition(":")[2]
    process = Path(f"/proc/{daemon.pid}")
    assert (
        secret.encode()
        not in process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
    )
    outputs = (instance.sm("daemon", "logs"), instance.sm("status"), instance.sm("config"))
    assert not any(secret in output for output in outputs)
    files = [path for path in instance.state.rglob("*") if path.is_file()]
    assert any(path.name == "sm.db" for path in files)
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_daemon_refuses_to_start_with_a_bad_token_file_and_says_why(api: TelegramApi) -> None:
    """The other reasons: tests/config/test_telegram_section.py."""
    with Instance(forked=False) as instance:
        token_file = configure(instance, api)
        token_file.chmod(0o644)
        said = instance.refused("all", exit_code=2)
        assert f"telegram.token_file: {token_file} has mode 0644, and must have mode 0600" in said
        assert api.token not in said
        token_file.chmod(0o600)


def test_nothing_of_telegram_is_loaded_without_a_token() -> None:
    with Instance(forked=False) as instance:
        listed = instance.home / "modules"
        daemon = instance.run_daemon(sys.executable, "-c", MODULES, str(listed))
        instance.sm("daemon", "stop")
        assert daemon.wait() == 0
        loaded = json.loads(listed.read_text())
        assert "sm.daemon.wiring" in loaded
        assert [name for name in loaded if name.startswith(("telegram", "httpx", "sm.telegram"))] == []
        (instance.state / "stopped").unlink()


def test_bot_loads_no_command_line_of_its_http_library() -> None:
    code = "import sys; from sm.telegram.door import load_bot; load_bot(); print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {"httpx", "telegram"} <= set(loaded)
    assert {"click", "rich", "pygments"}.isdisjoint(loaded)


def test_daemon_without_the_library_works_and_says_what_to_install(api: TelegramApi) -> None:
    with Instance(forked=False) as instance:
        configure(instance, api)
        instance.run_daemon(sys.executable, "-c", WITHOUT_LIBRARY)
        until(lambda: troubles(instance), "the trouble")
        assert troubles(instance) == [
            "telegram is off until the daemon restarts: python-telegram-bot is not installed; "
            "sm doctor names the command that installs it"
        ]
        assert os.listdir(instance.state / "log") == ["daemon.log"]
