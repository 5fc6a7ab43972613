#!/usr/bin/env bash
# app.sh: runs the Streams app in the foreground. APP_CPU pins it; GUARANTEE, INPUT, WINDOWED, STATE_DIR, APP_ID: see App.java.
set -euo pipefail
. "$(dirname "$0")/common.sh"
export STATE_DIR=${STATE_DIR:-$DATA/state}
pin=(); [ -n "${APP_CPU:-}" ] && pin=(taskset -c "$APP_CPU")
# shellcheck disable=SC2086  # APP_JVM is a list of options.
exec "${pin[@]}" java -Xms"${APP_HEAP:-4g}" -Xmx"${APP_HEAP:-4g}" ${APP_JVM:-} -cp "$CP" "${LOG[@]}" peer.App
