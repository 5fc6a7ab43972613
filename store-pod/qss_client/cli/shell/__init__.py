"""The commands and the shells: completion by the Tab key, and a shell of commands of its own.

1. `completion` has `qss completion SHELL`, which prints a script of typer. The script starts `qss`
   at each Tab with the words of the line in the environment. `tab` recognises such a start, and
   `cli.main` imports only the part that has the command of this line.
2. `kubectl_completion` is the program `kubectl_complete-qss`: kubectl starts it with the words
   behind `kubectl qss`, and it answers in the form of kubectl.
3. `interactive` has `qss shell`: it reads lines with prompt_toolkit, and runs each as a command of
   `qss` in this process. `lines` adds the store and the options of the connection to a line, and
   `line_completer` asks the same functions for completions as a Tab in the user's shell.
4. `names` completes the words that are no commands or options: the names of stores, the types of
   queries, the codes. A command names one of these functions at its argument.

A function of `names` that finds nothing, or meets an error, answers with no names: a message would
be written between the words of the line. It waits for a pod a second at most.

`names` is imported by the options of all commands, so it imports nothing that takes long. Tests:
`tests/integration/qss/test_qss_completion.py` runs the scripts in real shells.
"""
