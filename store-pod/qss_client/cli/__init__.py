"""The command `qss`.

`main` finds the commands by their entry points and tells errors in one way. `queries`, `timed`,
`count` and `writers` are commands; `options` and `asking` are what they share, `printing` and
`tables` print answers, `advice` puts a store's errors in the words of the commands.
"""
