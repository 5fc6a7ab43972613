# shellcheck shell=bash
# Sourced by the scripts. Everything lands in $DATA; nothing is written elsewhere.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DATA=${DATA:-$ROOT/data}
BOOTSTRAP=${BOOTSTRAP:-127.0.0.1:19092}
HTTP=${HTTP:-127.0.0.1:18080}
CP="$ROOT/target/peer-kafka-streams-1.jar:$ROOT/target/lib/*"
LOG=(-Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true)
export DATA BOOTSTRAP HTTP CP LOG
mkdir -p "$DATA"
