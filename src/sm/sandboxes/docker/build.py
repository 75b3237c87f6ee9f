"""Builds the image of sandboxes: what is sent to the engine, and the steps as they come back."""

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sm import __version__
from sm.core.programs import image_agents
from sm.errors import SandboxUnavailable
from sm.sandboxes.images import NODE, BuildLine, BuildRequest

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
)
_STEP_MAX = 120
_BUNDLE_MAX_BYTES = 16 * 1024 * 1024
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_DOCKERFILES = (
    f"{_FOLDER}/Dockerfile.sandbox",  # an installed package
    f"{_FOLDER}/../../../../docker/Dockerfile.sandbox",  # a checkout
)
_STAGE = """\
FROM npm AS {name}
ARG NPM_CONFIG_REGISTRY
ARG {argument}
RUN set -e; [ -n "${argument}" ] || exit 0; \\
    cd /tmp; fetch {recipe.package} "${argument}"; \\
    mv {recipe.file} /out/usr/local/bin/{name}; chmod 755 /out/usr/local/bin/{name}
"""
_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)", re.DOTALL)
_FAILED = re.compile(r"The command '.*' returned a non-zero code: (\d+)")
_NOISE = re.compile(r"---> |Removing intermediate container |Successfully (built|tagged) ")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def bundle_of(ca_file: str | None) -> bytes:
    """The certificates that programs of this machine trust, or those of `ca_file`. Raises SandboxUnavailable."""
    hint = "set sandbox.ca_file in config.yaml: sm config edit"
    path = ca_file or next(filter(os.path.isfile, _BUNDLES), None)
    if path is None:
        raise SandboxUnavailable("this machine has no file of trusted certificates", hint)
    try:
        with open(path, "rb") as file:
            content = file.read(_BUNDLE_MAX_BYTES + 1)
    except OSError as error:
        raise SandboxUnavailable(f"cannot read the certificates {path}: {error.strerror}", hint) from None
    if len(content) > _BUNDLE_MAX_BYTES or b"-----BEGIN CERTIFICATE-----" not in content:
        raise SandboxUnavailable(f"{path} contains no certificates in the format PEM", hint)
    return content


def _argument(agent: str) -> str:
    """The argument of the Dockerfile that gets the version of an agent."""
    return agent.upper()


def dockerfile_text() -> str:
    """The Dockerfile, with the steps of every agent that an image can have."""
    with open(next(filter(os.path.isfile, _DOCKERFILES)), encoding="utf-8") as file:
        text = file.read()
    stages, copies = [], []
    for name, recipe in image_agents().items():
        stages.append(_STAGE.format(name=name, argument=_argument(name), recipe=recipe))
        copies.append(f"COPY --from={name} /out/ /")
    return text.replace("# (stages)", "\n".join(stages)).replace("# (programs)", "\n".join(copies))


def context_of(bundle: bytes) -> io.BytesIO:
    """The tar archive that the engine builds from. Equal contents make equal archives, for the engine's cache."""
    files = {"Dockerfile": dockerfile_text().encode(), "ca.crt": bundle}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    archive.seek(0)
    return archive


def build_arguments(request: BuildRequest, uid: int, gid: int) -> dict[str, str]:
    """The arguments of the Dockerfile. `uid` and `gid`: of the image's user."""
    versions = {name: version or "latest" for name, _, version in (a.partition("@") for a in request.agents)}
    agents = {_argument(name): versions.get(name, "") for name in image_agents()}
    return {
        **request.arguments,
        "NPM": "npm" if any(agents.values()) else "",
        "NODE": "nodejs npm" if NODE in versions else "",
        **agents,
        "AGENTS": " ".join(request.agents),
        "UID": str(uid),
        "GID": str(gid),
        "VERSION": __version__,
    }


class BuildReader:
    """Turns the records of the engine's answer into lines. Afterwards it has the image's id or the error."""

    def __init__(self, add: Callable[[BuildLine], None]) -> None:
        self._add = add
        self._rest = ""
        self.image_id: str | None = None
        self.error: str | None = None

    def read(self, record: Mapping[str, Any]) -> None:
        """Take one record: `stream`, `status` (of a pull), `aux` with the id of a stage's image, or `error`."""
        if isinstance(text := record.get("stream"), str):
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._line(line)
        elif isinstance(status := record.get("status"), str):
            if "progressDetail" not in record:  # else it is one of very many
                self._line(status)
        elif isinstance(aux := record.get("aux"), Mapping) and isinstance(aux.get("ID"), str):
            self.image_id = aux["ID"]
        elif isinstance(error := record.get("error"), str):
            text = plain(error)
            self.error = text if (failed := _FAILED.fullmatch(text)) is None else f"exit code {failed[1]}"

    def _line(self, line: str) -> None:
        if (step := _STEP.fullmatch(line)) is not None:
            self._add(BuildLine(f"{step[1]}/{step[2]} {plain(step[3])}", is_step=True))
        elif (text := plain(line.rstrip("\r").rpartition("\r")[2])) and not _NOISE.match(text):
            self._add(BuildLine(text, is_step=False))


def plain(text: str) -> str:
    """The text of a build's output without control characters, on one line."""
    return " ".join(_ESCAPES.sub("", text).split())


def last_lines(lines: Sequence[BuildLine], limit: int) -> Iterator[str]:
    """The last step and at most `limit` lines of its output."""
    begin = max((n for n, line in enumerate(lines) if line.is_step), default=0)
    if begin < len(lines):
        text = lines[begin].text
        yield text if len(text) <= _STEP_MAX else text[: _STEP_MAX - 3] + "..."
        yield from (line.text for line in lines[max(begin + 1, len(lines) - limit) :])
