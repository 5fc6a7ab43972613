"""The pod's certificates: watches a directory, and loads changed files if they are valid.

Each valid set of files gets its own contexts, which never change. A new connection uses the newest
contexts; open connections keep theirs.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_LOG = logging.getLogger(__name__)
_MISSES_TOLD = 2  # A look may meet files that are being changed.
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"


class CertificateError(Exception):
    """The files cannot be used; the text names them."""


@dataclass(frozen=True, slots=True)
class Files:
    """The contents of the files; the authority is optional."""

    certificate: bytes
    key: bytes
    authority: bytes | None


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of the pod's listeners and of its connections to peers."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Certificates:
    """The newest valid contexts of a directory."""

    def __init__(self, directory: Path, loaded: Callable[[str], None]) -> None:
        """Raises CertificateError; later changes call `loaded` with "loaded" or "refused"."""
        self._directory = directory
        self._loaded = loaded
        self._misses = 0  # So many looks in a row could not read the files.
        self._seen = read_files(directory)
        self._contexts = load(directory, self._seen)
        # The listeners keep this context; it gives each handshake the newest one.
        self.server = self._contexts.server
        self.server.sni_callback = self._hand_over

    @property
    def client(self) -> ssl.SSLContext:
        """The newest context for connections to peers."""
        return self._contexts.client

    def _hand_over(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        newest = self._contexts.server
        if newest is not self.server:
            connection.context = newest

    async def watch(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            self.look()

    def look(self) -> None:
        """Loads changed files if they are valid; logs once if they are not, or are away."""
        try:
            files = read_files(self._directory)
        except CertificateError as error:
            self._misses += 1
            if self._misses == _MISSES_TOLD:
                _LOG.error("the certificate cannot be read, the last good one stays: %s", error)
            return
        if self._misses >= _MISSES_TOLD:
            _LOG.info("the certificate in %s can be read again", self._directory)
        self._misses = 0
        if files == self._seen:
            return
        try:
            self._contexts = load(self._directory, files)
        except CertificateError as error:
            if self._is_still(files):
                self._seen = files
                self._loaded("refused")
                _LOG.error("the new certificate is refused, the old one stays: %s", error)
            return
        self._seen = files
        self._loaded("loaded")
        _LOG.info("new connections get the new certificate in %s", self._directory)

    def _is_still(self, files: Files) -> bool:
        """Whether the files did not change while `load` read them."""
        try:
            return read_files(self._directory) == files
        except CertificateError:
            return False


def read_files(directory: Path) -> Files:
    """All files, as consistent as the directory allows."""
    place = _current(directory)
    authority = place / AUTHORITY
    try:
        return Files(
            (place / CERTIFICATE).read_bytes(),
            (place / KEY).read_bytes(),
            authority.read_bytes() if authority.exists() else None,
        )
    except OSError as error:
        name = Path(error.filename or place).name
        raise CertificateError(f"{directory / name}: {error.strerror}") from error


def load(directory: Path, files: Files) -> Contexts:
    """Contexts of exactly these files. Raises CertificateError."""
    place = _current(directory)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        server.load_cert_chain(place / CERTIFICATE, place / KEY, password=_no_password)
    except (OSError, ValueError) as error:
        pair = f"{directory / CERTIFICATE} and {directory / KEY}"
        raise CertificateError(
            f"{pair} are not a certificate and its key: put both files of one pair there, as PEM"
        ) from error
    try:
        authority = None if files.authority is None else files.authority.decode("ascii")
        client = ssl.create_default_context(cadata=authority)
    except (OSError, ValueError) as error:
        raise CertificateError(
            f"{directory / AUTHORITY} holds no certificate: put the authority's there, as PEM"
        ) from error
    if read_files(directory) != files:
        raise CertificateError(f"the files in {directory} are being changed: try again")
    return Contexts(server, client)


def _current(directory: Path) -> Path:
    """The directory of the current files: a Secret's volume replaces `..data`, never the files."""
    data = directory / "..data"
    return data.resolve() if data.exists() else directory


def _no_password() -> str:
    raise ValueError("the key is encrypted")
