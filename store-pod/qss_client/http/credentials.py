"""A client's tokens, which are read again, and the certificate authorities that it trusts."""

import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qss_client.arguments import check_file
from qss_core.errors import CertificateRefusedError, MalformedRequestError, UnauthenticatedError

# The token of a pod that may query a store: a projected volume with that store's audience.
POD_TOKEN_FILE = Path("/var/run/secrets/queryablestate.dev/token")
Token = str | Callable[[], str]
_TOKEN_BYTES_MAX = 16 * 1024
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int, int]
    token: str


class TokenFile:
    """A file with a token, which is replaced from time to time. Safe for threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._held: _Read | None = None

    def __call__(self) -> str:
        """The token in the file; the last one read while the file cannot be read."""
        held = self._held
        try:
            seen = os.stat(self.path)
            stamp = seen.st_ino, seen.st_mtime_ns, seen.st_size
            if held is not None and held.stamp == stamp:
                return held.token
            token = self._read()
        except OSError as error:
            if held is not None:
                return held.token
            raise UnauthenticatedError(
                f"the token file {self.path} cannot be read: {error.strerror}"
            ) from error
        self._held = _Read(stamp, token)
        return token

    def read_again(self) -> str:
        """Reads the token again, even if the file looks unchanged."""
        self._held, held = None, self._held
        try:
            return self()
        except UnauthenticatedError:
            self._held = held
            raise

    def _read(self) -> str:
        with self.path.open("rb") as file:
            data = file.read(_TOKEN_BYTES_MAX + 1)
        return checked(data.decode("ascii", "replace").strip(), f"the token file {self.path}")


def checked(token: str, where: str) -> str:
    """The token; raises UnauthenticatedError, without quoting it, if a header cannot hold it."""
    if not isinstance(token, str) or len(token) > _TOKEN_BYTES_MAX or not _VISIBLE.fullmatch(token):
        raise UnauthenticatedError(f"{where} holds no token: one line of visible ASCII is needed")
    return token


class Credentials:
    """Makes the Authorization header of each request."""

    def __init__(
        self,
        token: Token | None = None,
        token_file: str | Path | None = None,
        pod_token_file: Path = POD_TOKEN_FILE,
    ) -> None:
        """Takes a token or its file; by default the token file of a pod, if there is one.

        token: a token, or a function that returns one and is called before each request.
        """
        if token is not None and token_file is not None:
            raise MalformedRequestError("give a token or a token file, not both")
        if not (token is None or isinstance(token, str) or callable(token)):
            kind = type(token).__name__
            raise MalformedRequestError(f"token: a text or a function that gives one, not {kind}")
        check_file("token_file", token_file)
        self._file: TokenFile | None = None
        self._token = token
        if token_file is not None:
            self._file = TokenFile(token_file)
        elif token is None and pod_token_file.exists():
            self._file = TokenFile(pod_token_file)

    def headers(self) -> dict[str, str]:
        """The headers for the next request; empty without a token."""
        if self._file is not None:
            return _header(self._file())
        if callable(self._token):
            return _header(checked(self._token(), "the function that was given"))
        return _header(checked(self._token, "the text that was given")) if self._token else {}

    def headers_after(self, refused: dict[str, str]) -> dict[str, str] | None:
        """The headers with a newer token after a 401; None if there is none."""
        newer = _header(self._file.read_again()) if self._file is not None else self.headers()
        return newer if newer != refused else None


def _header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# --- Trust


def trusted_by(ca_file: str | Path | None) -> ssl.SSLContext | None:
    """The context that checks servers by a CA file; None without a file: the system's."""
    check_file("ca_file", ca_file)
    if ca_file is None:
        return None  # Loading the system's authorities takes 20 ms.
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise CertificateRefusedError(f"the CA file {ca_file} cannot be used: {why}") from error


def certificate_refused(url: str, error: BaseException) -> CertificateRefusedError | None:
    """The error of a failed TLS handshake; None for other failures."""
    failure = _ssl_error(error)
    if isinstance(failure, ssl.SSLCertVerificationError):
        return CertificateRefusedError(
            f"{url} shows a certificate that is not trusted: {failure.verify_message}; name the "
            "store's own authority by ca_file (qss: --ca-file, QSS_CA_FILE)"
        )
    if failure is not None and failure.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return CertificateRefusedError(f"{url} speaks no TLS: is its URL http://...?")
    return None


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    """The handshake's own error, which libraries wrap in different ways."""
    waiting: list[BaseException] = [error]
    for _ in range(10):
        if not waiting:
            return None
        one = waiting.pop()
        if isinstance(one, ssl.SSLError) and isinstance(getattr(one, "reason", None), str):
            return one  # aiohttp's own errors are SSLErrors as well, without the cause.
        others = (one.__cause__, one.__context__, *one.args, getattr(one, "reason", None))
        waiting += [other for other in others if isinstance(other, BaseException)]
    return None
