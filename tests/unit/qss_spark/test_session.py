"""The configuration of Spark sessions, which a query's exactly-once writes rest on."""

import pytest

from qss_spark.session import CONFIGURATION, SHORT_RUN

STATE = "spark.sql.streaming.stateStore"


@pytest.mark.parametrize("configuration", [CONFIGURATION, SHORT_RUN])
def test_state_is_kept_in_rocksdb_with_the_changes_of_each_batch(
    configuration: dict[str, str],
) -> None:
    assert configuration[f"{STATE}.providerClass"].endswith(".RocksDBStateStoreProvider")
    assert configuration[f"{STATE}.rocksdb.changelogCheckpointing.enabled"] == "true"


@pytest.mark.parametrize("configuration", [CONFIGURATION, SHORT_RUN])
def test_the_checkpoint_file_manager_is_sparks_default(configuration: dict[str, str]) -> None:
    """Another one keeps the first attempt's state file where a batch is run again."""
    assert not [name for name in configuration if "FileManager" in name]
