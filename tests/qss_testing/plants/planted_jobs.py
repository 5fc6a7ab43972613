"""Rules of jobs and of certificates, each with a test that must fail without it.

`python -m qss_testing.plants.planted_jobs` takes each of them out, as `make planted` does. The
simulation does not plant them: it has no Spark, and its pods have no certificates.
"""

from qss_testing.plants.planted import Plant, run

_STORE = "store-pod/qss_store"
_ROUTES = "tests/unit/qss_spark/sink/test_learned_routes.py"

JOB_PLANTS = (
    Plant.of(
        "every round fails while the Secret of the certificate is away",
        "operator/qss_operator/kubernetes/access/pod_access.py",
        "            if self._context is None:\n",
        "            if True:\n",
        "tests/integration/operator/test_store_told.py"
        "::test_a_store_goes_on_while_its_secret_is_away_and_restarts_no_pod",
    ),
    Plant.of(
        "certificate files that are away are not told",
        f"{_STORE}/access/tls.py",
        "            if self._misses == _MISSES_TOLD:\n",
        "            if False:\n",
        "tests/integration/access/test_tls.py"
        "::test_files_that_are_away_are_told_once_and_taken_when_they_return",
    ),
    Plant.of(
        "each batch of a driver meets a failover anew",
        "spark-jobs/qss_spark/sink/store_sink.py",
        "            write_rows(self._http, run, batch, first)\n",
        "            write_rows(self._http, batch.run, batch, first)\n",
        f"{_ROUTES}::test_a_failover_is_met_once_by_a_query_whose_driver_stages",
    ),
    Plant.of(
        "each task of a worker meets a failover anew",
        "spark-jobs/qss_spark/sink/batch_steps.py",
        "    if (known := _learned.pop(store, None)) is not None:\n",
        "    if False:\n",
        f"{_ROUTES}::test_a_failover_is_met_once_by_the_tasks_of_a_worker",
    ),
    Plant.of(
        "a mirror ends where a partition has no active for long",
        "spark-jobs/qss_spark/mirroring/driver.py",
        "    return error.retry is Retry.LATER or isinstance(error, _WITHOUT_ACTIVE)\n",
        "    return error.retry is Retry.LATER\n",
        "tests/unit/qss_spark/test_mirror.py"
        "::test_a_mirror_goes_on_while_a_partition_has_no_active",
    ),
    Plant.of(
        "the end of `qss up` leaves a pod that is being restarted",
        "operator/qss_operator/local/supervisor.py",
        "            cancelled = error\n",
        "            raise\n",
        "tests/unit/qss_operator/local/test_supervisor.py"
        "::test_a_pod_that_is_being_restarted_has_ended_when_its_supervisor_ends",
    ),
    Plant.of(
        "an operator that goes away cuts its assignment in the middle",
        f"{_STORE}/http/internal/kept_work.py",
        "        return await asyncio.shield(task)\n",
        "        return await task\n",
        "tests/integration/replicas/test_new_replicas.py"
        "::test_an_assignment_is_taken_to_its_end_where_the_operator_goes_away",
    ),
)


if __name__ == "__main__":
    run(JOB_PLANTS)
