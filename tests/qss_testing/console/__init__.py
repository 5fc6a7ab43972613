"""A real browser on the console.

`browser` finds Debian's Chromium on this machine and starts it without a window, driven by
Playwright. It gives pages that keep what went wrong in them: errors of scripts, refusals of the
Content-Security-Policy, and requests to other origins than that of the pod. A test asks a page for
these at its end.

`screenshots` is the command behind `make screenshots`: it starts a store with standbys, writes
batches, kills a pod, and saves the pictures that the documentation shows. The store is small and
its rows are the same in each run; times and the figures of batches differ.

`.ci/install-browser` installs Chromium where there is none, so that `make test` finds it. No test
loads anything from the network: the pages come from pods of the test. The browser keeps its
profile in a temporary directory, which goes with it.

Playwright's own browsers are not used: they would be downloaded from elsewhere, and a test would
run in another program than that of the distribution.
"""
