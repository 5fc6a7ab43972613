"""The command `qss explain`: error codes, and fields of the resource."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from qss_client.cli.explain.reference import text_of_field
from qss_client.cli.shell.names import codes
from qss_client.cli.tables import terminal_width
from qss_core.codes.catalogue import CHAPTERS, EXPLANATIONS, code_of_text
from qss_core.codes.page import text_of
from qss_core.errors import MalformedRequestError, StoreError

_REFERENCES = "qss.references"
_COLUMNS, _COLUMNS_MIN = 100, 40


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            help="an error code, as NOT_READY, or a field, as spec.store.window",
            autocompletion=codes,
        ),
    ] = None,
    recursive: Annotated[  # noqa: FBT002 an option of a command.
        bool, typer.Option("--recursive", help="all fields below the field, without descriptions")
    ] = False,
) -> None:
    """Explain an error code and its remedy, or a field of the resource.

    Without a topic it lists the codes.
    """
    columns = max(_COLUMNS_MIN, min(_COLUMNS, terminal_width() or _COLUMNS))
    path = _path_of(topic or "")
    if topic is None:
        typer.echo(_list_of_codes())
    elif path is not None:
        typer.echo(text_of_field(_schema(), path, columns, recursive=recursive))
    else:
        typer.echo(text_of(_known_code(topic), columns))


def _list_of_codes() -> str:
    width = max(map(len, EXPLANATIONS)) + 2
    lines: list[str] = []
    for chapter, texts in CHAPTERS.items():
        lines += [f"{chapter}:"]
        lines += [f"  {code:{width}}{text.meaning}" for code, text in texts.items()]
        lines += [""]
    lines += [
        "`qss explain CODE` has the cause and the remedy; `qss explain spec` has the resource."
    ]
    return "\n".join(lines)


def _path_of(topic: str) -> list[str] | None:
    """The path of a field; None if the topic is none, but a code."""
    path = [name.removesuffix("[]") for name in topic.removeprefix("qss.").split(".")]
    if topic in ("qss", "QueryableStateStore", "queryablestatestore", "queryablestatestores"):
        return []
    return path if path[0] in ("apiVersion", "kind", "metadata", "spec", "status") else None


def _known_code(topic: str) -> str:
    code = code_of_text(topic)
    if code in EXPLANATIONS:
        return code
    near = get_close_matches(code, EXPLANATIONS, n=3)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise MalformedRequestError(
        f"no error code is called {topic!r}{hint}: `qss explain` lists the codes, and a field "
        "begins with spec or status, as spec.store.window"
    )


def _schema() -> Mapping[str, Any]:
    for entry in entry_points(group=_REFERENCES, name="resource"):
        read = entry.load()
        schema: Mapping[str, Any] = read()
        return schema
    raise StoreError("the reference of the resource is not installed")
