"""Arrow, in a pod: without pandas."""

import sys

import pyarrow as pa


class _Hidden:
    """An importer that does not find pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Nothing of any other module."""
        if name == "pandas":
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)


def settle_without_pandas() -> None:
    """Lets Arrow find out that there is no pandas, once for the whole process.

    Where pandas is installed, the first array made of a list imports it: more than a second in
    which a pod serves nobody, for a library that it has no use for. Arrow looks once and remembers.
    What is a user's own in the pod may import pandas all the same.
    """
    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Hidden)
