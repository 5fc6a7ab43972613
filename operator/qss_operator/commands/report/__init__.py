"""The command `kubectl qss report`: one file that shows the state of a store to a helper.

1. `command` has the options and writes the archive (tar, gzip; readable by its owner alone).
2. `contents` asks kubectl for the parts: the resource, the store's objects, events, logs and
   metrics of each pod. A part that kubectl refuses is named in `README.txt` with kubectl's words,
   and the rest is there.
3. `redaction` takes out the parts that must not leave the cluster: tokens, keys in the paths of
   requests, values of environment variables, and annotations that repeat a whole object.

Nobody asks the store itself: no key, no value and no Secret is read. Logs of pods have no keys and
values, since pods do not log them; the paths of requests are cleaned all the same, because a
library or a program of the user may write them.

Each part has a limit of bytes, and the archive a limit of pods. `redaction` is pure. Tests:
`tests/unit/qss_operator/commands`, where a script plays kubectl.
"""
