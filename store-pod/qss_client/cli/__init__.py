"""The command `qss`.

`main` finds the commands by their entry points, and reports errors. `queries`, `timed`, `count` and
`writers` are commands; they share `options` and `asking`. `printing` and `tables` print answers;
`advice` rewrites a store's errors with the names of commands and options.
"""
