"""Reads YAML files with stores: only JSON types, and no repeated member."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from qss_operator.errors import InvalidResourceError

_FILE_BYTES_MAX = 1024 * 1024
_STORES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One document of a file."""

    source: str
    resource: Any


class _StrictLoader(yaml.SafeLoader):
    """YAML without timestamps (JSON has them as strings) and without repeated members.

    It refuses aliases, too: with them a few lines could expand to any amount of memory, or to an
    endless structure.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None,
                None,
                "aliases (*name) are not supported: write the value out",
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        names = [key.value for key, _ in node.value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"the field {twice[0]!r} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_manifests(files: Sequence[Path]) -> list[Manifest]:
    """Every document of every file; raises InvalidResourceError for invalid YAML."""
    manifests = [manifest for file in files for manifest in _documents(file)]
    if not manifests:
        raise InvalidResourceError("there is no document in " + ", ".join(map(str, files)))
    if len(manifests) > _STORES_MAX:
        raise InvalidResourceError(f"{len(manifests)} stores are too many: at most {_STORES_MAX}")
    return manifests


def _documents(file: Path) -> Iterator[Manifest]:
    try:
        size = file.stat().st_size
        if size > _FILE_BYTES_MAX:
            raise InvalidResourceError(f"{file} has {size} bytes: at most {_FILE_BYTES_MAX}")
        documents = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_StrictLoader))
    except OSError as error:
        raise InvalidResourceError(f"{file}: {error.strerror or error}") from error
    except RecursionError:
        raise InvalidResourceError(f"{file}: its members are nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = " ".join(str(error).replace('in "<unicode string>",', "in").split())
        raise InvalidResourceError(f"{file} is no YAML: {text}") from error
    for number, document in enumerate(documents, start=1):
        if document is not None:
            source = str(file) if len(documents) == 1 else f"{file}, document {number}"
            yield Manifest(source=source, resource=document)
