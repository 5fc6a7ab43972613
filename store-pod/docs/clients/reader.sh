#!/bin/bash
# Reads a store with curl 7.76 or newer.
# reader.sh URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
set -euo pipefail
url=$1/state/stores/$2 seconds=${QSS_DEADLINE_S:-30}
files=$(mktemp --directory) && trap 'rm -r "$files"' EXIT

# A failure that may pass: it has a time to wait, or a partition is on its way to another pod.
passing='"retryAfterMs":|"(code|reason)":"(NOT_PRESENT|NOT_ACTIVE|STALE_EPOCH)"'

ask() {
  local end=$((SECONDS + seconds)) code
  until
    : >"$files/answer"
    # All users of a machine see the arguments of its processes, so the token is in a file.
    [[ -z ${QSS_TOKEN_FILE:-} ]] || printf 'Authorization: Bearer %s' "$(<"$QSS_TOKEN_FILE")" >"$files/token"
    curl --no-progress-meter --fail-with-body --path-as-is --get --max-time "$seconds" \
      --output "$files/answer" --dump-header "$files/headers" \
      ${QSS_TOKEN_FILE:+--header "@$files/token"} \
      ${QSS_POSITION:+--data-urlencode "positionBound=$QSS_POSITION"} "$@"
  do
    code=$? # 7 to 56: refused, cut, or no answer in time.
    [[ $code =~ ^(7|18|28|52|56)$ ]] || grep -qE "$passing" "$files/answer" || return 1
    ((SECONDS < end)) || return 1
    sleep 0.5
  done
}
absent() { grep -q '"code":"KEY_NOT_FOUND"' "$files/answer" && printf null >"$files/answer"; }
fail() { cat "$1" >&2 && exit 1; }

if [[ $3 == get ]]; then
  key=$(printf %s "$4" | od -An -v -tx1 | tr -d '\n' | tr ' ' %) # Each byte as %xx.
  ask "$url/$key" || absent || fail "$files/answer"
  printf '%s\n' "$(<"$files/answer")"
  sed -n 's/^queryable-state-position: \([^\r]*\).*/QSS_POSITION=\1/Ip' "$files/headers" >&2
  exit
fi
cursor='' started=$SECONDS
while
  ask --header 'Accept: application/x-ndjson' --data-urlencode "prefix=$4" \
    --data limit="${QSS_LIMIT:-1000}" ${cursor:+--data "cursor=$cursor"} "$url" || fail "$files/answer"
  if grep '^{"key":' "$files/answer"; then started=$SECONDS; fi
  if grep '^{"partition":.*"failure":{' "$files/answer" >"$files/failed"; then
    if grep -qvE "$passing" "$files/failed" || ((SECONDS - started >= seconds)); then fail "$files/failed"; fi
    sleep 0.5
  fi
  # The cursor of the last partition goes on with all that is left, also with what failed.
  cursor=$(tail -n 1 "$files/answer" | sed -n 's/.*"cursor":"\([^"]*\)"}$/\1/p')
  [[ -n $cursor ]]
do :; done
