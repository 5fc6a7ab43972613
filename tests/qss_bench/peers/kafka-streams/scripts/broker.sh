#!/usr/bin/env bash
# broker.sh: formats (first time) and runs one KRaft node in the foreground. BROKER_CPU pins it.
set -euo pipefail
. "$(dirname "$0")/common.sh"
port=${BOOTSTRAP##*:}
controller=${CONTROLLER_PORT:-$((port + 1))}
conf=$DATA/server.properties
cat > "$conf" <<CONF
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters=1@127.0.0.1:$controller
log.dirs=$DATA/kafka
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
if [ ! -e "$DATA/kafka/meta.properties" ]; then
  java -cp "$CP" "${LOG[@]}" kafka.tools.StorageTool format -t "$(java -cp "$CP" "${LOG[@]}" kafka.tools.StorageTool random-uuid)" -c "$conf"
fi
pin=(); [ -n "${BROKER_CPU:-}" ] && pin=(taskset -c "$BROKER_CPU")
exec "${pin[@]}" java -Xms1g -Xmx1g -XX:+UseG1GC -cp "$CP" "${LOG[@]}" kafka.Kafka "$conf"
