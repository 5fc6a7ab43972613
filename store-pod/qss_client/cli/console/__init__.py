"""The command `qss console`, which opens the console of a store in a browser.

`command` finds the store as every command does, and asks its pods for the page. Where the page can
be opened as it is, on one machine in a store that asks for no tokens, the browser gets the address
of the pod.

Where the store is on Kubernetes, asks for tokens, or has a certificate of an authority that the
browser does not know, `gateway` listens on the loopback and stands between the browser and the pod,
until Ctrl-C. It tells the page how other programs find the store. It adds the caller's token to
each request, so that the token never leaves this process, and renews it. The browser shows the
gateway a session instead. It gets the session by a code in the fragment of the address: the page
takes the code out of the address and exchanges it, once, and keeps the session in memory. The
browser is given a file that leads to the address, since all users of the machine see the line of
its process. So that line, its history and other programs do not have the secret that opens the
store.

The gateway passes on what the page asks for and nothing else: `/console/`, `/state/` and
`/openapi.json`. It has no state beside the session, and ends with the command. Tests:
`tests/integration/qss/test_qss_console.py`.
"""
