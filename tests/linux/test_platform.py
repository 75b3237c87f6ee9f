"""The platform check and the file limit; only the name and version of the kernel are faked."""

import platform
import resource
import subprocess
import sys

import pytest

from sm.errors import PlatformUnsupported
from sm.linux.platform import check_platform
from tests.linux.started import python


def test_this_platform_is_supported() -> None:
    check_platform()


@pytest.mark.parametrize(
    ("system", "release", "sentence"),
    [
        ("Darwin", "23.1.0", "sm runs on Linux only (WSL2 included), and this is Darwin"),
        ("Linux", "5.3.18-default", "sm needs a Linux kernel of 5.4 or newer, and this is 5.3.18-default"),
        ("Linux", "4.19", "sm needs a Linux kernel of 5.4 or newer, and this is 4.19"),
        ("Linux", "mystery", "sm needs a Linux kernel of 5.4 or newer, and this is mystery"),
    ],
)
def test_other_platform_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, sentence: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(PlatformUnsupported) as caught:
        check_platform()
    assert caught.value.message == sentence


@pytest.mark.parametrize("release", ["5.4.0-generic", "5.10", "6.1.0-18-amd64", "10.0.0"])
def test_new_enough_kernel_is_accepted(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: release)
    check_platform()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("soft", "hard", "raised"), [(64, 128, 128), (128, 128, 128), (64, 9000, 8192), (8500, 9000, 8500)]
)
def test_limit_of_open_files_is_raised_as_far_as_allowed(soft: int, hard: int, raised: int) -> None:
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
