"""How any program talks to a store: pure routing and retries, one sync and one async shell."""
