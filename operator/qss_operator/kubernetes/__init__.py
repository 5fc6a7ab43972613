"""Runs the operator on Kubernetes: the ports of `reconcile`, over one thin client of the API.

`program` is the process. It leads while it holds the Lease (`leadership`). `watches` starts a kopf
watch for each namespace (`kopf_watch`); `stores` gets the changes from the watches and has one
`store_loop` for each store. A loop runs rounds: at most so many at a time as `rounds` allows. A
round reads the resource (`resources`) and the pods (`cluster`) through `api.read_cache`, lets
`planning` decide, and applies the children (`objects`). `access` has the operator's tokens for the
pods. `failure_status` is the status after an error, `events` posts events, `names` has the names
and labels of children, `settings` the command line.
"""
