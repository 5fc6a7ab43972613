"""Rules of readers, of stores and of files, each with a test that must fail without it.

`python -m qss_testing.plants.planted_reads` takes each of them out, as `make planted` does. The
simulation does not plant them: its readers have no client, and read no pages by time and no file.
"""

from qss_testing.plants.planted import Plant, run

_CLIENT = "store-pod/qss_client"
_SCANS = "store-pod/qss_store/reads"

READ_PLANTS = (
    Plant.of(
        "a page by time ends between rows of one key in several partitions",
        f"{_SCANS}/scans/cursors.py",
        "is_by_time and codec.partitioner is Partitioner.EXPLICIT else",
        "False else",
        "tests/integration/test_queries_by_time.py"
        "::test_rows_of_a_window_and_a_key_in_several_partitions_are_all_paged",
    ),
)


if __name__ == "__main__":
    run(READ_PLANTS)
