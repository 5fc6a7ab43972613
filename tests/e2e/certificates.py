"""Makes an authority and certificates of stores with `openssl`."""

import base64
import subprocess
from pathlib import Path

from e2e.kubectl import Object


def authority(directory: Path) -> Path:
    """Makes an authority; returns the path of its certificate."""
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *(
            "-subj",
            "/CN=e2e",
            "-keyout",
            str(directory / "ca.key"),
            "-out",
            str(directory / "ca.crt"),
        ),
    )
    return directory / "ca.crt"


def secret(directory: Path, name: str, store: str, namespace: str) -> Object:
    """A Secret with a new certificate of that authority for a store and its pods."""
    names = [f"{store}.{namespace}.svc", f"*.{store}-pods.{namespace}.svc", store]
    extensions = directory / "names"
    extensions.write_text("subjectAltName=" + ",".join(f"DNS:{one}" for one in names))
    _openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={store}"),
        *("-keyout", str(directory / "tls.key"), "-out", str(directory / "tls.csr")),
    )
    _openssl(
        *("x509", "-req", "-days", "1", "-in", str(directory / "tls.csr")),
        *("-CA", str(directory / "ca.crt"), "-CAkey", str(directory / "ca.key")),
        *("-extfile", str(extensions), "-out", str(directory / "tls.crt")),
    )
    data = {
        file: base64.b64encode((directory / file).read_bytes()).decode()
        for file in ("tls.crt", "tls.key", "ca.crt")
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name},
        "data": data,
    }


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
