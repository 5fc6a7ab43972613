"""The command `kubectl qss`: the commands of `qss` for a store on Kubernetes, by its name.

kubectl runs the program `kubectl-qss` on the path. Its options are those of kubectl (-n, --context,
--kubeconfig), and stand behind the command, as kubectl demands of every plug-in.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from qss_client.cli.main import register_own
from qss_client.cli.program import empty_app, run_app

_GROUP = "qss.kubectl"
# `kubectl get qss` lists the stores; a load reaches every pod, and a forwarded port only one;
# kubectl has completion of its own, and the shell has the commands of `qss`.
_NOT_HERE = frozenset({"stores", "load", "completion", "shell"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `kubectl qss`, by default with the arguments of this process; ends the process."""
    given = sys.argv[1:] if arguments is None else arguments
    run_app("kubectl qss", _make_app, given)


class _Plugin:
    """A typer app whose commands find their store by the options of kubectl."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def command(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Adds a command, as the method of typer's app does."""
        from qss_client.cli.option_groups import asking_by_kubectl

        def add(command: Callable[..., Any]) -> Callable[..., Any]:
            if command.__name__ not in _NOT_HERE:
                self._app.command()(asking_by_kubectl(command))
            return command

        return add


def _make_app() -> Any:
    app = empty_app("kubectl qss", "Ask stores on Kubernetes, in the namespace of the context.")
    plugin = _Plugin(app)
    for entry in entry_points(group=_GROUP):
        try:
            register = entry.load()
        except ModuleNotFoundError:
            continue  # The part that has the commands is not installed.
        register(plugin)
    register_own(plugin)
    return app
