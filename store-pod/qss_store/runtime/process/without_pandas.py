"""Makes Arrow work without pandas."""

import sys

import pyarrow as pa


class _Hidden:
    """An importer that does not find pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Finds no module, and refuses pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)


def settle_without_pandas() -> None:
    """Makes Arrow believe that pandas is missing, once for the whole process.

    If pandas is installed, the first array made of a list imports it: the pod would not answer for
    more than a second. Arrow looks only once. A user's code in the pod may still import pandas.
    """
    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Hidden)
