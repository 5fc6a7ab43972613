"""The audiences of tokens: one for each store, so that no token opens another store."""


def own_audience(namespace: str, store: str) -> str:
    """The audience of one store only."""
    return f"queryablestate.dev/{namespace}/{store}"
