"""Events about stores: `status_events` finds what changed in a status, `rules` counts and bounds
events, `poster` sends them and nobody waits for it.
"""
