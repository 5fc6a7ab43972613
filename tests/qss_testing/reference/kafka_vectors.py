"""The byte vectors made by running Kafka Streams 4.3.0."""

import json
from pathlib import Path
from typing import Any

Vector = dict[str, Any]
VECTORS: list[Vector] = json.loads(
    (Path(__file__).parents[2] / "contract" / "kafka-vectors.json").read_text()
)
