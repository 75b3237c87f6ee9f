"""The section `warnings` of the configuration: values that are refused."""

from pathlib import Path

import pytest

from sm.capabilities.warnings.settings import WarningsSection
from sm.config import load
from sm.errors import ConfigError


def read(tmp_path: Path, text: str) -> WarningsSection:
    path = tmp_path / "config.yaml"
    path.write_text(f"warnings:\n  {text}\n")
    path.chmod(0o600)
    return load(str(path)).config.section(WarningsSection)


@pytest.mark.parametrize(
    "text",
    [
        "lop: {}",
        "loop: {limit: 0}",
        "loop: {limit: -5}",
        "loop: {limit: 1}",
        "loop: {failures: 2.5}",
        "loop: {do: kill}",
        "loop: {do: true}",
        "loop: {after: 5}",
        "no_progress: {after: 0}",
        "no_progress: {after: -1}",
        "no_progress: {after: .nan}",
        "no_progress: {after: .inf}",
        "no_progress: {after: 1.0e+400}",
        "no_progress: {after: 20min}",
        "burn: {limit: 1}",
        "burn: {limit: .nan}",
        "context: {limit: 101}",
        "context: {limit: 0}",
        "unanswered: {do: nudge}",
        "unanswered: {do: interrupt}",
        "memory: {limit: 4g}",
        "memory: {limit: .inf}",
        "crash_loop: {do: pause}",
        "silent: {limit: 0}",
    ],
)
def test_unusable_rule_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, text)


@pytest.mark.parametrize("off", ["off", '"off"', "no"])
def test_rule_can_be_off_without_quotes(tmp_path: Path, off: str) -> None:
    assert read(tmp_path, f"loop: {{do: {off}}}").loop.do == "off"


def test_rule_keeps_the_defaults_of_other_keys(tmp_path: Path) -> None:
    rule = read(tmp_path, "loop: {failures: 4, do: pause}").loop
    assert (rule.limit, rule.failures, rule.do) == (5, 4, "pause")
