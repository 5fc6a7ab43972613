"""The command `qss console`, which opens the console of a store in a browser.

`command` finds the store as every command does, and asks its pods for the page. Where the page can
be opened as it is, on one machine or behind a forwarded port of a store that asks for no tokens,
the browser gets the address of the pod, and the forwarding lasts until Ctrl-C.

Where the store asks for tokens, or has a certificate of an authority that the browser does not
know, `gateway` listens on the loopback and stands between the browser and the pod. It adds the
caller's token to each request, so that the token never leaves this process, and renews it. The
browser shows the gateway a session instead. It gets the session by a code in the fragment of the
address that is opened: the page takes the code out of the address and exchanges it, once, and keeps
the session in memory. So the line of the browser's process, its history and other programs of the
machine do not have what opens the store.

The gateway passes on what the page asks for and nothing else: `/console/`, `/state/` and
`/openapi.json`. It has no state beside the session, and ends with the command. Tests:
`tests/integration/test_qss_console.py`.
"""
