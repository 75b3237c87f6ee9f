"""The platform check and the limit of open files. Only the name and version of the kernel are faked."""

import platform
import resource
import subprocess
import sys

import pytest

from sm.errors import PlatformUnsupported
from sm.linux.platform import check_platform
from tests.linux.child_process import python


def test_check_platform_accepts_this_machine() -> None:
    check_platform()


@pytest.mark.parametrize(
    ("system", "release", "sentence"),
    [
        ("Darwin", "23.1.0", "sm runs only on Linux (including WSL2), not on Darwin"),
        ("Linux", "5.3.18-default", "sm needs Linux kernel 5.4 or newer, this is 5.3.18-default"),
        ("Linux", "4.19", "sm needs Linux kernel 5.4 or newer, this is 4.19"),
        ("Linux", "mystery", "sm needs Linux kernel 5.4 or newer, this is mystery"),
    ],
)
def test_check_platform_refuses_another_system_or_an_old_kernel(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, sentence: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(PlatformUnsupported) as caught:
        check_platform()
    assert caught.value.message == sentence


@pytest.mark.parametrize("release", ["5.4.0-generic", "5.10", "6.1.0-18-amd64", "10.0.0"])
def test_check_platform_accepts_a_new_enough_kernel(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: release)
    check_platform()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("soft", "hard", "raised"), [(64, 128, 128), (128, 128, 128), (64, 9000, 8192), (8500, 9000, 8500)]
)
def test_raise_fd_limit_raises_the_soft_limit_as_far_as_allowed(soft: int, hard: int, raised: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < hard:
        pytest.skip(f"the hard limit here is {most}")
    code = (
        f"import resource, sys; sys.path[:0] = {sys.path!r}\n"
        "from sm.linux.platform import raise_fd_limit\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "raise_fd_limit(); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    answer = subprocess.run(python(code), capture_output=True, check=True)
    assert answer.stdout.split() == [b"%d" % raised, b"%d" % hard]
