#!/bin/bash
# What Spark's Kubernetes scheduler starts: `driver` and `executor`, as the project's own image knows them. Anything else is
# a command of its own: `spark-submit ...`, `python ...`.
set -euo pipefail

java_options() { # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ... in the order of their numbers
  local name
  options=()
  for name in $(compgen -e SPARK_JAVA_OPT_ | sort --version-sort); do options+=("${!name}"); done
}

case ${1:-} in
  driver)
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "${@:2}"
    ;;
  executor)
    java_options
    exec "$JAVA_HOME/bin/java" "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
      -cp "$SPARK_CONF_DIR:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *) exec "$@" ;;
esac
