"""The registries, in processes that know a made-up agent CLI and a made-up engine before they load anything else.

`tests/played/test_registry.py` plays both in a daemon.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from sm import registry
from sm.core.programs import is_plan
from sm.policy.tool_rules import PathContext, evaluate, parse_rule
from sm.registry import HookFormat, hook_format, tool_use_names
from tests.cli.test_startup import HEAVY
from tests.registered.lines import register

REPOSITORY = Path(__file__).parents[1]
WITH_BOTH = """
import sys
from sm import registry
registry.PROVIDERS["toy"] = "tests.registered.toy"
registry.ENGINES["toybox"] = "tests.registered.toybox"
"""


class RunCode(Protocol):
    def __call__(self, code: str, *options: str) -> "subprocess.CompletedProcess[str]": ...


@pytest.fixture
def run_code(tmp_path: Path) -> RunCode:
    def run(code: str, *options: str) -> "subprocess.CompletedProcess[str]":
        environ = {
            "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}",
            "SM_HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
        }
        argv = [sys.executable, *options, "-c", WITH_BOTH + code]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)

    return run


def test_each_registry_names_packages_with_a_program() -> None:
    for package in registry.ENGINES.values():
        assert registry.part(package, "program") is not None
    for name, package in registry.PROVIDERS.items():
        program = registry.part(package, "program")
        assert program is None or program.PROGRAM.name == name


def test_hook_format_is_found_by_the_name_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    form = hook_format("toy")
    assert isinstance(form, HookFormat)
    assert form.opens_dialog == "asks"
    assert hook_format("command") is None
    assert hook_format("no such provider") is None
    assert "toy/use" in tool_use_names()


def test_part_raises_the_error_of_a_module_that_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "program.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.part("broken_package", "wire_format") is None
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.part("broken_package", "program")


def test_rules_know_the_tools_of_a_registered_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    parse_rule.cache_clear()  # a test with the provider may have parsed the rule in this process
    with pytest.raises(ValueError, match="use run without one"):
        parse_rule("run(make *)")
    register(monkeypatch)
    place = PathContext("/work")

    def is_allowed(tool: str, **arguments: object) -> bool:
        return evaluate(["run(make *)", "wonder"], [], tool, arguments, place, cut=False) is not None

    assert is_allowed("run", line="make all")
    assert not is_allowed("run", line="make all; rm x")
    assert not is_allowed("run", line="make all", unwatched=True)
    assert not is_allowed("wonder")
    assert is_plan("scheme")


@pytest.mark.processes
def test_hook_format_loads_no_other_part_of_a_provider(run_code: RunCode) -> None:
    done = run_code(
        "from sm.registry import hook_format, tool_use_names\n"
        "assert hook_format('toy') and hook_format('claude') and list(tool_use_names())\n"
        "print(*sys.modules, sep='\\n')",
        "-S",
    )
    loaded = set(done.stdout.split())
    assert not loaded & (HEAVY | {"typing", "re", "enum", "dataclasses", "importlib.util", "json"}), (
        done.stderr
    )
    assert {name for name in loaded if name.startswith(("sm.providers.", "tests.registered.toy."))} == {
        *("sm.providers.claude", "sm.providers.claude.wire_format"),
        *("sm.providers.codex", "sm.providers.command", "tests.registered.toy.wire_format"),
    }


@pytest.mark.processes
def test_commands_know_a_registered_provider(run_code: RunCode) -> None:
    def sm(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_code(f"sys.argv = ['sm', *{arguments}]\nfrom sm.cli import main\nmain()")

    printed = sm("mcp", "--print-config", "toy")
    assert printed.stdout.startswith("server /")
    assert printed.stderr == "add to ~/.toy/servers:\n"
    assert "{claude|toy}" in sm("hook", "--help").stdout
    assert "claude, codex, toy, node, or none" in " ".join(sm("sandbox", "build", "--help").stdout.split())


@pytest.mark.processes
def test_configuration_has_the_section_of_a_registered_provider(run_code: RunCode, tmp_path: Path) -> None:
    example = run_code("from sm.config import example\nprint(example())").stdout
    assert "\n# A made-up agent CLI.\ntoy:\n  # Variables of its agents.\n  env: {}\n" in example
    assert "    - TOY_KEY\n" in example
    assert "    - .toy/run\n" in example
    (tmp_path / "config.yaml").write_text(
        "commands: {Toy: {command: [x]}}\n"
        "toy: {agent_configs: {toy: {modle: x}}}\n"
        'sandbox: {engine: "toybox:MAIN", pass_env: [TOY_IN_A_BOX], mounts: [/var/lib/toybox/x]}\n'
    )
    load = f"from sm.config import load\nprint(load({str(tmp_path / 'config.yaml')!r}))"
    wrong = run_code(load).stderr
    assert "2:23: toy.agent_configs.toy: is also an agent type of `commands`" in wrong
    assert "2:29: toy.agent_configs.toy.modle: unknown key (did you mean `model`?)" in wrong
    assert "sandbox.engine: must be the socket of an engine" in wrong
    assert "TOY_IN_A_BOX cannot be passed into a sandbox: sm sets it itself" in wrong
    assert "/var/lib/toybox/x cannot be mounted: /var/lib/toybox belongs to an engine" in wrong
    (tmp_path / "config.yaml").write_text(
        'toy: {env: {SM_SESSION_ID: x}, agent_configs: {Bear: {}}}\nsandbox: {engine: "toybox:main"}\n'
    )
    right = run_code(
        load.replace("print(", "found = (")
        + "\nimport json\nfrom sm.providers import make_providers\n"
        + "print(json.dumps([found.warnings, make_providers(found.config)['toy'].agent_types]))"
    )
    assert json.loads(right.stdout) == [
        ["`toy.env.SM_SESSION_ID` has no effect: sm sets it itself"],
        ["Toy", "Bear"],
    ]
