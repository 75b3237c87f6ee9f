"""The build of the image: its inputs, and the engine's answer. Pure."""

from pathlib import Path

import pytest

from sm import __version__
from sm.core.programs import image_agents
from sm.errors import SandboxUnavailable, UsageError
from sm.paths import INSIDE_CA_FILE
from sm.sandboxes.docker.build import (
    BuildReader,
    build_arguments,
    bundle_of,
    context_of,
    dockerfile_text,
    last_lines,
)
from sm.sandboxes.images import BuildLine, BuildRequest, agents_of, arguments_of
from tests import claude_cli

TESTED = image_agents()["claude"].tested


def test_agents_have_a_fixed_order_and_the_tested_version_of_claude() -> None:
    assert agents_of(["node", "codex@1.2.3", "claude"]) == (
        f"claude@{TESTED}",
        "codex@1.2.3",
        "node",
    )
    assert agents_of(["claude@latest", "codex"]) == ("claude@latest", "codex")
    assert agents_of([]) == ()


def test_tested_version_of_claude_is_that_of_the_tests() -> None:
    assert TESTED == claude_cli.VERSION


@pytest.mark.parametrize(
    "name", ["", "vi", "node@20", "claude@", "claude@1 2", "claude@$(id)", "@1", "claude@-x"]
)
def test_unknown_agent_or_version_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError):
        agents_of([name])


def test_agent_with_two_versions_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="claude is given twice"):
        agents_of(["claude", "claude@1.0"])


def test_build_gets_the_proxies_and_the_registry_of_the_callers_shell_only() -> None:
    environment = {
        "https_proxy": "http://small:1",
        "HTTPS_PROXY": "http://large:1",
        "no_proxy": "localhost",
        "npm_config_registry": "https://npm.example.org/",
        "HTTP_PROXY": "",
        "ANTHROPIC_API_KEY": "secret",
        "PATH": "/bin",
    }
    assert arguments_of(environment) == {
        "HTTPS_PROXY": "http://large:1",
        "NO_PROXY": "localhost",
        "NPM_CONFIG_REGISTRY": "https://npm.example.org/",
    }


def test_arguments_select_the_packages_of_the_agents() -> None:
    both = BuildRequest(
        agents_of(["claude", "node"]), no_cache=False, pull=False, arguments={"NO_PROXY": "x"}
    )
    assert build_arguments(both, 5, 6) == {
        "NO_PROXY": "x",
        "NPM": "npm",
        "NODE": "nodejs npm",
        "CLAUDE": TESTED,
        "CODEX": "",
        "AGENTS": f"claude@{TESTED} node",
        "UID": "5",
        "GID": "6",
        "VERSION": __version__,
    }
    none = BuildRequest((), no_cache=False, pull=False, arguments={})
    assert {build_arguments(none, 5, 6)[name] for name in ("NPM", "NODE", "CLAUDE", "CODEX", "AGENTS")} == {
        ""
    }


def test_dockerfile_declares_every_argument_that_a_build_gets() -> None:
    dockerfile = dockerfile_text()
    declared = {
        line.split()[1].partition("=")[0] for line in dockerfile.splitlines() if line.startswith("ARG ")
    }
    request = BuildRequest((), no_cache=False, pull=False, arguments={})
    assert declared == {*build_arguments(request, 0, 0), "NPM_CONFIG_REGISTRY"}


def test_image_has_the_certificates_where_agents_look_for_them() -> None:
    dockerfile = dockerfile_text()
    assert f"cp /usr/local/share/sm/ca.crt {INSIDE_CA_FILE};" in dockerfile
    assert f"NODE_EXTRA_CA_CERTS={INSIDE_CA_FILE}" in dockerfile


def test_context_has_the_dockerfile_of_the_repository_and_is_the_same_each_time() -> None:
    first = context_of(b"certificates").getvalue()
    assert dockerfile_text().encode() in first
    assert b"certificates" in first
    assert context_of(b"certificates").getvalue() == first


def test_configured_certificates_must_be_readable_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    with pytest.raises(SandboxUnavailable, match="No such file"):
        bundle_of(str(file))
    file.write_text("no certificate")
    with pytest.raises(SandboxUnavailable, match="contains no certificates"):
        bundle_of(str(file))
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    assert bundle_of(str(file)) == b"-----BEGIN CERTIFICATE-----\n"


def read(*records: dict[str, object]) -> tuple[list[BuildLine], BuildReader]:
    lines: list[BuildLine] = []
    reader = BuildReader(lines.append)
    for record in records:
        reader.read(record)
    return lines, reader


def test_reader_joins_the_pieces_of_a_line_and_omits_the_engines_own_lines() -> None:
    lines, reader = read(
        {"stream": "Step 1/2 : FROM debian"},
        {"stream": "\n"},
        {"stream": " ---> 11ac0cf5ad3a\n"},
        {"stream": "Step 2/2 : RUN a;   b\n"},
        {"stream": "\x1b[91mfirst\x1b[0m\nprogress 1\rprogress 2\nun"},
        {"stream": "finished\n"},
        {"stream": "Removing intermediate container 37cbaa359d10\n"},
        {"aux": {"ID": "sha256:stage"}},
        {"aux": {"ID": "sha256:image"}},
        {"stream": "Successfully built 70702c087d15\n"},
    )
    assert lines == [
        BuildLine("1/2 FROM debian", is_step=True),
        BuildLine("2/2 RUN a; b", is_step=True),
        BuildLine("first", is_step=False),
        BuildLine("progress 2", is_step=False),
        BuildLine("unfinished", is_step=False),
    ]
    assert (reader.image_id, reader.error) == ("sha256:image", None)


def test_reader_keeps_the_error_and_shows_a_pull_without_its_progress() -> None:
    lines, reader = read(
        {"status": "Pulling from library/debian", "id": "bookworm-slim"},
        {"status": "Downloading", "progressDetail": {"current": 5}, "id": "1"},
        {"error": "returned a non-zero\ncode: 1", "errorDetail": {}},
    )
    assert [line.text for line in lines] == ["Pulling from library/debian"]
    assert reader.error == "returned a non-zero code: 1"


def test_last_lines_are_those_of_the_last_step() -> None:
    step = [BuildLine("1/2 FROM debian", is_step=True), BuildLine("2/2 RUN a", is_step=True)]
    output = [BuildLine(str(n), is_step=False) for n in range(5)]
    assert list(last_lines([*output, *step, *output], 3)) == ["2/2 RUN a", "2", "3", "4"]
    assert list(last_lines([*step, output[0]], 3)) == ["2/2 RUN a", "0"]
    assert list(last_lines([], 3)) == []
