"""The command `kubectl qss logs`, which prints the logs of a store's pods."""

from typing import Annotated

import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.options import Name
from qss_client.cli.printing import Output
from qss_client.kube.kubectl import KubernetesPlace, run_kubectl
from qss_core.errors import MalformedRequestError

_PODS_MAX = 100  # kubectl follows five pods by default.


def register(app: typer.Typer) -> None:
    """Add the command to `kubectl qss`."""
    app.command()(logs)


@reaching
def logs(
    store: Name,
    pod: Annotated[
        str | None, typer.Option(help="One pod by its name, as words-2.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,  # noqa: FBT002
    previous: Annotated[  # noqa: FBT002
        bool, typer.Option("--previous", "-p", help="Of the process before the last restart.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="Only lines of the last 10m, 1h, ...", show_default=False)
    ] = None,
    tail: Annotated[int, typer.Option(min=-1, help="The last lines of each pod; -1: all.")] = 100,
    *,
    reached: Reaching,
) -> None:
    """Print the logs of a store's pods, each line with the name of its pod."""
    if reached.output is not Output.TABLE:
        raise MalformedRequestError("logs are lines of text: leave out --output")
    place = reached.place
    asked = KubernetesPlace.parse(f"{place.namespace}/{store}", place.context, place.kubeconfig)
    if pod is not None and not pod.startswith(f"{store}-"):
        raise MalformedRequestError(f"{pod} is no pod of store {store}: see `kubectl get pods`")
    label = f"--selector=queryablestate.dev/store={store}"
    chosen = [pod] if pod is not None else [label, f"--max-log-requests={_PODS_MAX}"]
    code = run_kubectl(
        asked,
        "logs",
        *chosen,
        "--prefix",
        f"--tail={tail}",
        *(["--follow"] if follow else []),
        *(["--previous"] if previous else []),
        *([f"--since={since}"] if since else []),
    )
    raise typer.Exit(code)
