"""Certificates of an authority for tests, made by openssl."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority for servers on 127.0.0.1."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> "Authority":
        directory.mkdir(parents=True)
        _openssl(
            *("req", "-x509", *_CURVE, "-days", "2", "-subj", f"/CN={directory.name}"),
            *("-keyout", str(directory / "ca.key"), "-out", str(directory / "ca.crt")),
        )
        return cls(directory)

    @property
    def file(self) -> Path:
        """The CA file that clients are given."""
        return self.directory / "ca.crt"

    def issue(self, directory: Path, *, name: str = "IP:127.0.0.1") -> Path:
        """A directory for `--tls-dir` with a certificate."""
        directory.mkdir(parents=True)
        _openssl(
            *("req", "-x509", *_CURVE, "-days", "2", "-subj", f"/CN={directory.name}"),
            *("-addext", f"subjectAltName={name}", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", str(self.file), "-CAkey", str(self.directory / "ca.key")),
            *("-keyout", str(directory / "tls.key"), "-out", str(directory / "tls.crt")),
        )
        shutil.copy(self.file, directory / "ca.crt")
        return directory


class SecretVolume:
    """A directory like a Secret's volume, whose files change by replacing one link."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = 0
        path.mkdir()

    def put(self, source: Path) -> None:
        """Shows the files of another directory."""
        self._turn += 1
        shutil.copytree(source, self.path / f"..{self._turn}")
        link = self.path / "..new"
        link.symlink_to(f"..{self._turn}")
        link.rename(self.path / "..data")
        for file in source.iterdir():
            shown = self.path / file.name
            if not shown.is_symlink():
                shown.symlink_to(Path("..data") / file.name)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
