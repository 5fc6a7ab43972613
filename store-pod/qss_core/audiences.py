"""What tokens are made for: one audience for each store, so that no token opens another store."""


def own_audience(namespace: str, store: str) -> str:
    """The audience that is one store's alone."""
    return f"queryablestate.dev/{namespace}/{store}"
