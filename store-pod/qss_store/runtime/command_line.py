"""The command line of a pod, and its settings from the environment."""

import argparse
import difflib
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qss_store.runtime.settings import Settings

_PREFIX = "QSS_"
# A request between replicas has up to 4 MiB of other entries, and the names of all, with a chunk.
_BESIDE_A_CHUNK_BYTES = 8 * 1024 * 1024
_CLOSE = 0.75  # Suggest a setting only if its name is at least this similar.
# These belong to `qss`, whose pods inherit them, and to the pod template.
_OF_OTHERS = frozenset(
    {
        *("QSS_STATE_DIR", "QSS_URL", "QSS_TOKEN", "QSS_TOKEN_FILE", "QSS_CA_FILE"),
        *("QSS_ORDINAL", "QSS_RESOURCE_UID"),
    }
)
# Kubernetes sets variables for Services, also for those named qss-...
_OF_A_SERVICE = re.compile(r"QSS_.*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)")
# Where Kubernetes puts a pod's own token and the API server's authority.
_KUBERNETES_CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ORDINAL_DIGITS_MAX = 9
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_FOR_SERVICE_ACCOUNTS = ("namespace", "peer_service_account", "peer_token_file", "kubernetes_api")


class SettingError(Exception):
    """A variable of the environment has an invalid value."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The parsed command line; ends the process if it is invalid."""
    parser = argparse.ArgumentParser(prog="qss_store", description="Serves one pod of a store.")
    parser.add_argument("--store", required=True, help="the store's name")
    parser.add_argument("--ordinal", required=True, type=_ordinal, help="this pod's number, from 0")
    parser.add_argument("--data-dir", required=True, type=Path, help="the volume")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--query-port", default=8080, type=int, help="/state, for readers")
    parser.add_argument("--internal-port", default=8081, type=int, help="writers, peers, operator")
    parser.add_argument("--ops-port", default=8082, type=int, help="metrics and health")
    parser.add_argument("--log-format", default="text", choices=("text", "json"))
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    _add_access(parser)
    arguments = parser.parse_args(argv)
    if arguments.authentication == "serviceaccount":
        missing = [name for name in _FOR_SERVICE_ACCOUNTS if getattr(arguments, name) is None]
        if missing:
            flags = ", ".join("--" + name.replace("_", "-") for name in missing)
            parser.error(f"--authentication serviceaccount needs {flags}")
    return arguments


def _add_access(parser: argparse.ArgumentParser) -> None:
    access = parser.add_argument_group("access and TLS")
    access.add_argument(
        "--authentication",
        default="none",
        choices=("none", "serviceaccount"),
        help="none: everybody who reaches the ports may do everything",
    )
    access.add_argument("--namespace", type=_name, help="the store's namespace")
    _add_audiences(access)
    access.add_argument(
        "--peer-service-account",
        type=_name,
        metavar="NAME",
        help="the service account of this store's pods",
    )
    access.add_argument(
        "--peer-token-file",
        type=Path,
        metavar="FILE",
        help="the file with the token that this pod sends to other pods",
    )
    access.add_argument(
        "--operator-service-account",
        type=_namespaced,
        metavar="NAMESPACE/NAME",
        help="the service account of the operator, which may control the pod beside its peers",
    )
    access.add_argument(
        "--tls-dir",
        type=Path,
        metavar="DIR",
        help="serve https with tls.crt and tls.key of DIR, and check peers by its ca.crt",
    )
    access.add_argument(
        "--kubernetes-api",
        default=api_server_url(os.environ),
        metavar="URL",
        help="the API server that reviews tokens; by default the pod's own",
    )
    access.add_argument(
        "--kubernetes-credentials",
        default=_KUBERNETES_CREDENTIALS,
        type=Path,
        metavar="DIR",
        help="token and ca.crt for the API server",
    )


def _add_audiences(access: Any) -> None:
    access.add_argument(
        "--token-audience",
        metavar="A",
        help="the audience of callers' tokens; queryablestate.dev/NAMESPACE/STORE by default",
    )
    access.add_argument(
        "--common-audience",
        metavar="A",
        help="a further audience that is accepted in tokens of readers and writers",
    )
    access.add_argument(
        "--peers-audience",
        metavar="A",
        help="a further audience of other pods' tokens: older pods show tokens for it",
    )


def _ordinal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _ORDINAL_DIGITS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of Kubernetes")
    return text


def _namespaced(text: str) -> tuple[str, str]:
    namespace, separator, name = text.partition("/")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return _name(namespace), _name(name)


def service_account(namespace: str, name: str) -> str:
    """The full name of a service account, as in reviews."""
    return f"system:serviceaccount:{namespace}:{name}"


def api_server_url(environment: Mapping[str, str]) -> str | None:
    """The API server's URL from Kubernetes' variables; None outside a pod."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{what}") for what in ("HOST", "PORT"))
    if not host or not port:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def settings_from(environment: Mapping[str, str]) -> Settings:
    """The settings; `QSS_CHUNK_BYTES_MAX=1000` sets chunk_bytes_max, and so on.

    A request between replicas has room for a chunk. Raises SettingError, which names the variable
    and its valid values.
    """
    defaults = Settings()
    given: dict[str, Any] = {
        name: _setting_in(variable, environment[variable], getattr(defaults, name))
        for name in Settings.__slots__
        if (variable := _variable_of(name)) in environment
    }
    chunk_bytes = given.get("chunk_bytes_max", defaults.chunk_bytes_max)
    least = chunk_bytes + _BESIDE_A_CHUNK_BYTES
    between = given.setdefault("replication_bytes_max", max(defaults.replication_bytes_max, least))
    if between < least:
        raise SettingError(
            f"QSS_REPLICATION_BYTES_MAX is at least {least}, not {between}: no standby would get a "
            f"chunk of {chunk_bytes} bytes (QSS_CHUNK_BYTES_MAX). Correct it, or unset it"
        )
    return Settings(**given)


def unknown_settings(environment: Mapping[str, str]) -> list[str]:
    """Warnings about variables that look like settings and are not."""
    known = {_variable_of(name) for name in Settings.__slots__}
    plain = {one.replace("_", ""): one for one in known}
    said = []
    for variable in sorted(environment):
        if not variable.startswith(_PREFIX) or variable in known | _OF_OTHERS:
            continue
        if _OF_A_SERVICE.fullmatch(variable):
            continue
        near = difflib.get_close_matches(variable.replace("_", ""), plain, 1, _CLOSE)
        hint = f": did you mean {plain[near[0]]}?" if near else ""
        said.append(f"{variable} is no setting of a pod, and does nothing{hint}")
    return said


def _variable_of(name: str) -> str:
    return f"{_PREFIX}{name.upper()}"


def _setting_in(variable: str, text: str, default: float | str) -> float | str:
    if isinstance(default, str):
        return text
    is_whole = isinstance(default, int)
    try:
        number = int(text) if is_whole else float(text)
    except ValueError:
        number = -1
    if not (math.isfinite(number) and number >= 0):
        kind = "whole number" if is_whole else "number"
        raise SettingError(
            f"{variable} is a {kind} from 0, like {default}, not {text!r}: correct it, or unset it"
        )
    return number
