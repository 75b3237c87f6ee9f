"""The marks that decide which tests `./check` runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.groups import pytest_collection_modifyitems

REPOSITORY = Path(__file__).parents[1]


def test_contributing_lists_each_test_of_the_real_claude_that_check_runs() -> None:
    marked = {
        name
        for file in (REPOSITORY / "tests" / "integration").glob("test_claude_*.py")
        for name in re.findall(
            r"^@pytest.mark.claude_core\n(?:.+\n)*?(?:async )?def (\w+)", file.read_text(), re.MULTILINE
        )
    }
    listed = re.findall(r"^\| `(test_\w+)` \|", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(listed) >= 20
    assert sorted(marked) == sorted(listed)


@pytest.mark.processes
def test_help_of_check_names_each_tier_and_checks_nothing() -> None:
    shown = subprocess.run(
        ["sh", REPOSITORY / "check", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"^  \./check(.*?)  ", shown, re.MULTILINE) == [
        "",
        " --fast",
        " --full",
        " ARGUMENTS...",
        " --help",
    ]
    assert "phase" not in shown.rpartition("--help")[2]


@pytest.mark.processes
@pytest.mark.parametrize(("options", "failed"), [(["--fast"], "types"), ([], "types, simulation")])
def test_check_names_what_failed_beside_the_tests(tmp_path: Path, options: list[str], failed: str) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "setup.sh").write_text(
        """
        say() { echo "-- $*"; }
        clean_environment() { :; }
        setup_system() { :; }
        setup_venv() { venv=$PWD; }
        version_of() { echo Python; }
        setup_claude() { :; }
        setup_engine() { :; }
        setup_images() { :; }
        setup_browser() { :; }
        setup_gh() { :; }
        """
    )
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bin").mkdir()
    for name, code in {
        "ruff": "true",
        "lint-imports": "true",
        "mypy": "timeout 20 cat pipe && echo wrong type; exit 1",
        "python": "case $* in\n"
        "*pytest*) [ ! -p pipe ] || timeout 20 sh -c 'echo tests run >pipe'; rm -f pipe ;;\n"
        "*tests.sim*) echo a doubled message; exit 1 ;;\n"
        "esac",
    }.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copy(REPOSITORY / "check", tmp_path)
    ended = subprocess.run(["sh", tmp_path / "check", *options], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert lines[-1] == f"check: failed: {failed}"
    assert ("-- simulation\na doubled message\n" in ended.stdout) is (not options)
    begin = lines.index("-- types")
    assert lines[begin + 1 : begin + 3] == ["tests run", "wrong type"]


@pytest.mark.processes
def test_tests_of_a_group_run_in_one_worker_though_others_are_free(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.groups import pytest_collection_modifyitems\n")
    (tmp_path / "test_group.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(20))\n"
        "@pytest.mark.xdist_group('containers')\n"
        "def test_group(number, worker_id):\n"
        f"    open({str(tmp_path)!r} + f'/ran-{{worker_id}}-{{number}}', 'w').close()\n"
    )
    options = f"-p xdist -n 2 --dist loadgroup -c {os.devnull} --rootdir {tmp_path} {tmp_path}".split()
    path = {"PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=os.environ | path,
        capture_output=True,
        check=True,
    )
    ran = [path.name.split("-")[1] for path in tmp_path.glob("ran-*")]
    assert len(ran) == 20
    assert len(set(ran)) == 1


@pytest.mark.parametrize(
    ("has_browser", "group"), [(False, "containers of test_tiers"), (True, "containers")]
)
def test_tests_with_an_engine_share_a_group_with_those_in_a_browser(
    request: pytest.FixtureRequest, has_browser: bool, group: str
) -> None:
    made = [
        pytest.Function.from_parent(request.node.parent, name="test_other", callobj=call)
        for call in (lambda engine: None, lambda: None)
    ]
    if has_browser:
        made[1].add_marker(pytest.mark.browser)
    pytest_collection_modifyitems(request.config, list(made))
    mark = made[0].get_closest_marker("xdist_group")
    assert mark is not None
    assert mark.args == (group,)
