"""The byte vectors made by running Kafka Streams 4.3.0."""

import json
from pathlib import Path
from typing import Any

Vector = dict[str, Any]
VECTORS: list[Vector] = json.loads(
    (Path(__file__).parents[2] / "contract" / "kafka-vectors.json").read_text()
)

# The vectors of rows with times: windows and sessions.
TIMED_KINDS = frozenset(
    {
        "session_bound_fixed_lower",
        "session_bound_fixed_upper",
        "session_bound_range_lower",
        "session_bound_range_upper",
        "session_key",
        "session_key_key_first",
        "session_key_time_first",
        "window_bound_fixed_lower",
        "window_bound_fixed_upper",
        "window_bound_range_lower",
        "window_bound_range_upper",
        "window_end",
        "window_key",
        "window_key_key_first",
        "window_key_time_first",
        "window_key_topic",
    }
)
