#!/bin/bash
# Reads a store with curl 7.76 or newer.
# reader.sh URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
set -euo pipefail
url=$1/state/stores/$2 seconds=${QSS_DEADLINE_S:-30}
files=$(mktemp --directory) && trap 'rm -r "$files"' EXIT

# curl itself repeats 429 and 503, after Retry-After, and says so.
ask() {
  : >"$files/answer"
  curl --no-progress-meter --fail-with-body --path-as-is --get \
    --output "$files/answer" --dump-header "$files/headers" \
    --retry 100 --retry-connrefused --retry-max-time "$seconds" --max-time "$seconds" \
    ${QSS_TOKEN_FILE:+--header "Authorization: Bearer $(cat "$QSS_TOKEN_FILE")"} \
    ${QSS_POSITION:+--data-urlencode "positionBound=$QSS_POSITION"} "$@"
}
fail() {
  cat "$1" >&2
  exit 1
}

if [[ $3 == get ]]; then
  key=$(printf %s "$4" | od -An -v -tx1 | tr -d '\n' | tr ' ' %) # Each byte as %xx.
  if ask "$url/$key"; then cat "$files/answer"; else
    grep -q '"code":"KEY_NOT_FOUND"' "$files/answer" || fail "$files/answer"
    printf null
  fi
  echo
  sed -n 's/^queryable-state-position: \([^\r]*\).*/QSS_POSITION=\1/Ip' "$files/headers" >&2
  exit
fi
cursor='' started=$SECONDS
while
  ask --header 'Accept: application/x-ndjson' --data-urlencode "prefix=$4" \
    --data limit="${QSS_LIMIT:-1000}" ${cursor:+--data "cursor=$cursor"} "$url" || fail "$files/answer"
  if grep '^{"key":' "$files/answer"; then started=$SECONDS; fi
  if grep '^{"partition":.*"failure":{' "$files/answer" >"$files/failed"; then
    grep -q '"retryAfterMs":' "$files/failed" || fail "$files/failed"
    ((SECONDS - started < seconds)) || fail "$files/failed"
    sleep 1
  fi
  # The cursor of the last partition goes on with all that is left, also with what failed.
  cursor=$(tail -n 1 "$files/answer" | sed -n 's/.*"cursor":"\([^"]*\)"}$/\1/p')
  [[ -n $cursor ]]
do :; done
