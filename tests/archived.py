"""The archive of an ended session, whose files read like those of a directory."""

import io
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archived:
    """`base`: the path of the archive without its end."""

    base: Path

    @property
    def path(self) -> Path:
        return self.base.with_name(f"{self.base.name}.tar")

    def exists(self) -> bool:
        return self.path.exists()

    def files(self) -> dict[str, bytes]:
        """The contents of the files by their names below the only directory."""
        return {member.name.partition("/")[2]: data for member, data in self._members()}

    def texts(self, begin: str = "", end: str = "") -> dict[str, str]:
        """The texts of the files whose names have this begin, which is left out, and this end."""
        return {
            name.removeprefix(begin): data.decode()
            for name, data in self.files().items()
            if name.startswith(begin) and name.endswith(end)
        }

    def __truediv__(self, name: str) -> "ArchivedFile":
        return ArchivedFile(self, name)

    def _members(self) -> list[tuple[tarfile.TarInfo, bytes]]:
        with tarfile.open(self.path, "r:", errors="surrogateescape") as tar:
            found = []
            for member in tar.getmembers():
                file = tar.extractfile(member)
                assert file is not None and member.name.startswith(f"{self.base.name}/")
                assert member.mode == 0o600
                found.append((member, file.read()))
            return found

    def unpack(self) -> None:
        """Make it one of an earlier version: a directory, with the times of its files."""
        state = os.stat(self.path)
        for member, data in self._members():
            place = self.base.parent / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            os.utime(place, 2 * (member.mtime,))
        os.utime(self.base, ns=(state.st_atime_ns, state.st_mtime_ns))
        self.path.unlink()

    def pack(self) -> None:
        """Make one of the present version of a directory."""
        state = os.stat(self.base)
        with tarfile.open(self.path, "w", format=tarfile.PAX_FORMAT) as tar:
            for place in sorted(self.base.rglob("*")):
                if place.is_file():
                    place.chmod(0o600)
                    tar.add(place, f"{self.base.name}/{place.relative_to(self.base)}")
        os.utime(self.path, ns=(state.st_atime_ns, state.st_mtime_ns))
        shutil.rmtree(self.base)

    def change(self, name: str, data: bytes | None = None, at_s: float | None = None) -> None:
        """Change the content or the time of a file."""
        members = self._members()
        with tarfile.open(self.path, "w", format=tarfile.PAX_FORMAT) as tar:
            for member, content in members:
                if member.name == f"{self.base.name}/{name}":
                    content = content if data is None else data
                    member.size, member.mtime = len(content), member.mtime if at_s is None else at_s
                    member.pax_headers = {}
                tar.addfile(member, io.BytesIO(content))


@dataclass(frozen=True)
class ArchivedFile:
    archive: Archived
    name: str

    def exists(self) -> bool:
        return self.archive.exists() and self.name in self.archive.files()

    def read_bytes(self) -> bytes:
        return self.archive.files()[self.name]

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def set_time(self, at_s: float) -> None:
        """Set the time of the file. That of the archive stays."""
        state = os.stat(self.archive.path)
        self.archive.change(self.name, at_s=at_s)
        os.utime(self.archive.path, ns=(state.st_atime_ns, state.st_mtime_ns))
