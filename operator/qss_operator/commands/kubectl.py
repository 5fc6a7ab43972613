"""The commands that `kubectl qss` has beside the client's; `kubectl qss status` is here."""

from typing import Any

import msgspec
import typer

from qss_client.cli.option_groups import Reaching, reaching
from qss_client.cli.printing import Output, print_document, without_csv
from qss_client.cli.shell.names import OneOrAll
from qss_client.kube.kubectl import KubernetesPlace, read_resource, read_resources
from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.commands import logs
from qss_operator.commands.report import command as report
from qss_operator.local.status.summary import summary_of
from qss_operator.local.status.view import statuses_table
from qss_operator.planning.model import StoreStatus
from qss_operator.resources.status_document import decode_status


def register(app: typer.Typer) -> None:
    """Add the commands to `kubectl qss`."""
    app.command()(status)
    logs.register(app)
    report.register(app)


@reaching
def status(
    store: OneOrAll = None,
    *,
    reached: Reaching,
) -> None:
    """Show the published status of a store, or of all stores of the namespace.

    Of one store also its conditions, and which pod is active and standby for which partitions; -o
    json has the whole resource.
    """
    without_csv(reached.output)
    place = reached.place
    assert place.namespace is not None, "kubectl's options have a namespace"
    if store is None:
        found = read_resources(place.namespace, place.context, place.kubeconfig)
    else:
        name = f"{place.namespace}/{store}"
        found = [read_resource(KubernetesPlace.parse(name, place.context, place.kubeconfig))]
    if reached.output is not Output.TABLE:
        print_document({"items": found} if store is None else found[0], reached.output)
        return
    statuses = {_name_of(resource): _status_of(resource) for resource in found}
    if not statuses:
        typer.echo(f"no stores in the namespace {place.namespace}", err=True)
        return
    typer.echo(statuses_table(statuses))
    if store is not None:
        for shown in statuses.values():
            typer.echo(f"\n{summary_of(shown)}")


def _name_of(resource: dict[str, Any]) -> StoreName:
    return StoreName(resource["metadata"]["name"])


def _status_of(resource: dict[str, Any]) -> StoreStatus:
    """The status of a resource; an empty one where the operator has published none yet."""
    try:
        return decode_status(resource.get("status", {}))
    except msgspec.ValidationError as error:
        raise StoreError(
            f"the status of store {_name_of(resource)} has another form ({error}): operator and "
            "`kubectl qss` are of different versions"
        ) from error
