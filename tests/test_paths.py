import pytest

from sm.paths import instance_paths


@pytest.mark.parametrize(
    ("environ", "config", "socket"),
    [
        ({"SM_HOME": "/x", "HOME": "/root"}, "/x/config.yaml", "/x/state/run/sm.sock"),
        ({"SM_HOME": "/x/", "XDG_STATE_HOME": "/y"}, "/x/config.yaml", "/x/state/run/sm.sock"),
        ({"HOME": "/h"}, "/h/.config/sm/config.yaml", "/h/.local/state/sm/run/sm.sock"),
        (
            {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"},
            "/c/sm/config.yaml",
            "/s/sm/run/sm.sock",
        ),
        (
            {"HOME": "/h", "SM_HOME": "x", "XDG_STATE_HOME": "s"},
            "/h/.config/sm/config.yaml",
            "/h/.local/state/sm/run/sm.sock",
        ),
    ],
)
def test_places_come_from_the_environment(environ: dict[str, str], config: str, socket: str) -> None:
    found = instance_paths(environ)
    assert (found.config, found.socket) == (config, socket)
