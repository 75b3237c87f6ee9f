"""The section `web` of the configuration, as the server reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sm.errors import ConfigError
from sm.web.settings import read_settings

pytestmark = pytest.mark.processes


def test_settings_are_those_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "web: {port: 7500, bind: '::1', cert: /etc/c.pem, key: /etc/k.pem, hosts: [sm.example]}\n"
    )
    assert read_settings(str(config)) == (7500, "::1", "/etc/c.pem", "/etc/k.pem", ("sm.example",))


def test_invalid_file_is_refused_as_by_other_commands(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("web: {port: none}\n")
    with pytest.raises(ConfigError, match=r"web\.port"):
        read_settings(str(config))


def test_models_of_the_configuration_are_not_kept(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("web: {port: 7500}\n")
    code = (
        "import sys\nfrom sm.web.process import serve\nfrom sm.web.settings import read_settings\n"
        "read_settings(sys.argv[1])\nprint([name for name in sys.modules if name.startswith('sm.config')])"
    )
    argv = [sys.executable, "-c", code, str(config)]
    printed = subprocess.run(argv, env=dict(os.environ), capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
