"""The section `sandbox:` of config.yaml, and the overrides of workspaces."""

from pathlib import Path

import pytest

from sm.config import Config, SandboxSection, bytes_of, load, sandbox_for, sandbox_settings, split_mount
from sm.core.models import Workspace
from sm.errors import ConfigError, SandboxUnavailable, UsageError
from sm.policy.environment import DENIED_IN_SANDBOX
from sm.policy.mounts import SYSTEM_DIRECTORIES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(str(path))
    return raised.value.message.removeprefix(f"{path}:")


def workspace(**sandbox: object) -> Workspace:
    return Workspace("shop", "/shop", "2026-01-01T00:00:00Z", sandbox=sandbox)


@pytest.mark.parametrize(
    ("size", "bytes_"), [("1", 1), ("20b", 20), ("3k", 3072), ("512m", 512 << 20), ("4g", 4 << 30)]
)
def test_bytes_of_counts_units_in_powers_of_1024(size: str, bytes_: int) -> None:
    assert bytes_of(size) == bytes_


@pytest.mark.parametrize(
    "size", ["", "0", "lots", "4G", "4gb", "1.5g", "-1m", " 4g", "4 g", "g", "9" * 11, "٤g"]
)
def test_bytes_of_refuses_other_texts(size: str) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        bytes_of(size)


@pytest.mark.parametrize(
    ("mount", "path", "writable"),
    [("/a", "/a", False), ("/a:ro", "/a", False), ("/a b:rw", "/a b", True)],
)
def test_mount_is_read_only_unless_it_says_rw(mount: str, path: str, writable: bool) -> None:
    assert split_mount(mount) == (path, writable)


@pytest.mark.parametrize(
    ("setting", "mistake"),
    [
        ("memory: lots", "1:20: sandbox.memory: must be a size: a number of bytes, or a number with k, m or g"),
        ("memory: 511m", "1:20: sandbox.memory: must be at least 512m"),
        ("memory: 9000000g", "1:20: sandbox.memory: must be at most 1048576g"),
        ("memory: 4", "1:20: sandbox.memory: must be text, not 4: put it in quotes"),
        ("memory_reservation: 5g", "1:32: sandbox.memory_reservation: must be at most memory, 4g"),
        ("pids: 10", "1:18: sandbox.pids: must be at least 128, not 10"),
        ("cpus: 0", "1:18: sandbox.cpus: must be at least 0.1, not 0"),
        ("cpus: .inf", "1:18: sandbox.cpus: must be a number"),
        ("nofile: 1", "1:20: sandbox.nofile: must be at least 256, not 1"),
        ("network: host", "1:21: sandbox.network: must be one of bridge, none, not 'host'"),
        ("network: bridg", "1:21: sandbox.network: must be one of bridge, none, not 'bridg' (did you mean `bridge`?)"),
        ("host_access: 1", "1:25: sandbox.host_access: must be true or false, not 1"),
        ("image: -x", "1:19: sandbox.image: is not a valid image name"),
        ("scratch: none", "1:21: sandbox.scratch: must be a size"),
        ("tmp: 0", "1:17: sandbox.tmp: must be text, not 0"),
        ("runtime: a/b", "1:21: sandbox.runtime: must be a plain file name"),
        ("engine: tcp://10.0.0.1:2375", "1:20: sandbox.engine: must be the socket of an engine on this machine"),
        ("pass_env: [LD_PRELOAD]", "1:23: sandbox.pass_env[0]: LD_PRELOAD cannot be passed into a sandbox: it makes"),
        ("pass_env: [A, SM_SOCKET]", "1:26: sandbox.pass_env[1]: SM_SOCKET cannot be passed into a sandbox: sm sets"),
        ("pass_env: [A-B]", "1:23: sandbox.pass_env[0]: is not a valid variable name"),
        ("mounts: [data]", "1:21: sandbox.mounts[0]: must be an absolute path"),
        ("mounts: ['/data:rx']", "1:21: sandbox.mounts[0]: must be /PATH, /PATH:ro or /PATH:rw"),
        ("mounts: ['/data:']", "1:21: sandbox.mounts[0]: must be /PATH, /PATH:ro or /PATH:rw"),
        ("mounts: ['/data:ro:rw']", "1:21: sandbox.mounts[0]: must be /PATH, /PATH:ro or /PATH:rw"),
        ("mounts: [/data/../etc]", "1:21: sandbox.mounts[0]: must not contain .."),
        ("mounts: [/data, '/data/:rw']", "1:20: sandbox.mounts: must not contain /data twice"),
        ("mounts: [/]", "1:21: sandbox.mounts[0]: / cannot be mounted: it is the root of the file system"),
        ("vault: docs", "1:19: sandbox.vault: must be an absolute path"),
        ("ca_file: ca.pem", "1:21: sandbox.ca_file: must be an absolute path"),
        ("protect: [/etc]", "1:22: sandbox.protect[0]: must be a path below the workspace's directory"),
        ("protect: [a/../b]", "1:22: sandbox.protect[0]: must be a path below the workspace's directory"),
        ("protect: [.]", "1:22: sandbox.protect[0]: must be a path below the workspace's directory"),
        ("idle_stop_s: -1", "1:25: sandbox.idle_stop_s: must be at least 0, not -1"),
        ("on_engine_restart: keep", "1:31: sandbox.on_engine_restart: must be one of restore, end"),
        ("fallback: always", "1:22: sandbox.fallback: must be one of warn, never"),
        ("nonsense: true", "1:12: sandbox.nonsense: unknown key"),
        ("memmory: 4g", "1:12: sandbox.memmory: unknown key (did you mean `memory`?)"),
    ],
)  # fmt: skip
def test_sandbox_section_refuses_value_with_its_place(path: Path, setting: str, mistake: str) -> None:
    assert refusal(path, f"sandbox: {{ {setting} }}\n").startswith(mistake)


@pytest.mark.parametrize("name", SYSTEM_DIRECTORIES)
@pytest.mark.parametrize("form", ["{}", "{}/", "/.{}", "{}/below", "{}:rw"])
def test_mount_of_system_directory_is_refused_in_every_notation(path: Path, name: str, form: str) -> None:
    mount = form.format(name)
    assert "belongs to the system" in refusal(path, f"sandbox: {{mounts: ['{mount}']}}\n")
    with pytest.raises(UsageError, match="belongs to the system"):
        sandbox_settings({"mounts": f"['{mount}']"})


def test_settings_of_a_workspace_list_the_keys_only_for_an_unknown_key() -> None:
    with pytest.raises(UsageError) as unknown:
        sandbox_settings({"memmory": "2g"})
    assert str(unknown.value.hint).startswith("known keys: image, ")
    with pytest.raises(UsageError) as invalid:
        sandbox_settings({"memory": "lots"})
    assert invalid.value.hint is None


@pytest.mark.parametrize("name", [name.replace("*", "X") for name in DENIED_IN_SANDBOX])
def test_variable_that_runs_other_code_is_refused_in_pass_env(path: Path, name: str) -> None:
    assert f"{name} cannot be passed" in refusal(path, f"sandbox: {{pass_env: [{name}]}}\n")


def test_sandbox_section_accepts_every_key(path: Path) -> None:
    path.write_text(
        """
sandbox:
  {engine: "unix:///run/user/1000/docker.sock", image: "registry.example.org:5000/team/sm@sha256:0af", network: none,
  host_access: true, memory: 2g, memory_reservation: 2g, cpus: 1, pids: 128, nofile: 1024, scratch: 1g, tmp: 1m,
  runtime: runsc, pass_env: [HTTPS_PROXY], mounts: ["/data", "/cache:rw"], vault: /vault, protect: [], ca_file: /ca.pem,
  idle_stop_s: 0, on_engine_restart: end, fallback: never}
"""
    )
    section = load(str(path)).config.sandbox
    assert section.model_fields_set == SandboxSection.model_fields.keys()
    assert section.mounts == ("/data", "/cache:rw")


def test_small_memory_needs_no_setting_of_the_reservation(path: Path) -> None:
    path.write_text("sandbox: {memory: 512m, memory_reservation: 512m}\n")
    assert load(str(path)).config.sandbox.memory == "512m"


# ------------------------------------------------------------------------------------------- overrides of a workspace


def config(**sandbox: object) -> Config:
    return Config.model_validate({"sandbox": sandbox})


def test_settings_without_workspace_are_those_of_the_configuration() -> None:
    own = config(memory="2g")
    assert sandbox_for(own, None) == own.sandbox


def test_workspace_overrides_keys_and_keeps_the_others() -> None:
    settings = sandbox_for(
        config(memory="2g", pids=2000, runtime="runsc", vault="/docs", mounts=("/a",)),
        workspace(pids=512, runtime=None, mounts=["/b", "/c:rw"]),
    )
    assert (settings.memory, settings.pids, settings.runtime) == ("2g", 512, None)
    assert (settings.mounts, settings.vault) == (("/b", "/c:rw"), "/docs")


def test_reservation_is_limited_to_the_memory_of_the_workspace() -> None:
    settings = sandbox_for(config(memory="8g", memory_reservation="4g"), workspace(memory="1g"))
    assert (settings.memory, settings.memory_reservation) == ("1g", "1g")


@pytest.mark.parametrize(
    ("key", "value"),
    [("network", "host"), ("mounts", ["/etc"]), ("pids", 64), ("disk", "4g"), ("engine", None)],
)
def test_invalid_stored_override_makes_the_sandbox_unavailable(key: str, value: object) -> None:
    """Earlier versions accepted any network and any absolute path."""
    with pytest.raises(
        SandboxUnavailable, match=f"workspace shop has an invalid sandbox setting: {key}"
    ) as raised:
        sandbox_for(Config(), workspace(**{key: value}))
    assert raised.value.hint == f"sm workspace set shop --sandbox {key}="


def test_settings_of_workspace_keep_what_was_given_only() -> None:
    given = {"memory": "2g", "pids": "512", "runtime": "null", "mounts": "[/data, '/cache:rw']", "cpus": ""}
    assert sandbox_settings(given) == {
        "memory": "2g",
        "pids": 512,
        "runtime": None,
        "mounts": ["/data", "/cache:rw"],
    }


@pytest.mark.parametrize(
    ("key", "value", "mistake"),
    [
        ("memory", "lots", "memory: must be a size"),
        ("pids", "10", "pids: must be at least 128, not 10"),
        ("network", "host", "network: must be one of bridge, none, not 'host'"),
        ("mounts", "[/a, /a]", "mounts: must not contain /a twice"),
        ("mounts", "[data]", "mounts.0: must be an absolute path"),
        ("pass_env", "[LD_PRELOAD]", "pass_env.0: LD_PRELOAD cannot be passed"),
        ("memmory", "2g", r"memmory: unknown key \(did you mean `memory`\?\)"),
        *((key, "x", f"{key}: can only be set in config.yaml") for key in ("engine", "vault", "fallback")),
    ],
)
def test_setting_of_workspace_is_refused_with_its_mistake(key: str, value: str, mistake: str) -> None:
    with pytest.raises(UsageError, match=f"invalid sandbox settings: {mistake}"):
        sandbox_settings({key: value})
