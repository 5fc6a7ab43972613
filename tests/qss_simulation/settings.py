"""The settings of simulated pods: limits so small that each of them is met."""

from random import Random  # noqa: TID251 seeded by the world.

from qss_store.runtime.settings import Settings

# Settings of scenarios: background work is off, so only the scenario's lines cause events.
OF_SCENARIOS = Settings(
    finish_timeout_s=2.0,
    peer_timeout_s=2.0,
    compare_timeout_s=1.0,
    compare_interval_s=0.3,
    maintenance_interval_s=0.3,
    slice_rows_max=8,
    migration_step_rows=5,
    migration_retry_s=0.5,
    scrub_bytes_per_s=0,
)


def settings_of(random: Random) -> Settings:
    """Small limits: commits of several slices, quick maintenance, logs that are cut."""
    return Settings(
        finish_timeout_s=2.0,
        peer_timeout_s=2.0,
        compare_timeout_s=1.0,
        compare_interval_s=random.choice([0.5, 2.0]),
        maintenance_interval_s=random.choice([0.1, 0.3, 2.0]),
        open_batch_timeout_s=10.0,
        writer_alive_s=5.0,
        slice_rows_max=random.choice([3, 8, 500]),
        decoded_rows_bytes_max=random.choice([0, 4 * 1024 * 1024]),
        migration_step_rows=5,
        migration_retry_s=0.5,
        scrub_rest_s=7.0,
    )
