"""The types of field values in a spec: texts with a form, sizes and labels, with their bounds."""

from typing import Annotated

import msgspec

from qss_core.quantities import (
    DURATION_PATTERN,
    QUANTITY_PATTERN,
    RESOURCE_QUANTITY_PATTERN,
)

UNLIMITED = -1

_SCALAR_SERDE = "bytes|string|int16|int32|int64|float32|float64|boolean|uuid|json"
_SERDE_PATTERN = f"^(({_SCALAR_SERDE})|list<({_SCALAR_SERDE})>|list<list<({_SCALAR_SERDE})>>)$"

Serde = Annotated[str, msgspec.Meta(pattern=_SERDE_PATTERN, max_length=64)]
Duration = Annotated[str, msgspec.Meta(pattern=DURATION_PATTERN, max_length=20)]
QuantityText = Annotated[str, msgspec.Meta(pattern=QUANTITY_PATTERN, max_length=24)]
Size = Annotated[int, msgspec.Meta(ge=0)] | QuantityText
PositiveSize = Annotated[int, msgspec.Meta(ge=1)] | QuantityText
SizeOrUnlimited = (
    Annotated[int, msgspec.Meta(ge=UNLIMITED)]
    | Annotated[str, msgspec.Meta(pattern=f"^(-1|{QUANTITY_PATTERN[1:-1]})$", max_length=24)]
)
Name63 = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
Name253 = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_LABEL_KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_LABEL_VALUE_PATTERN = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
_IMAGE_PATTERN = (
    "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*"
    "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?$"
)
LabelKey = Annotated[str, msgspec.Meta(min_length=1, max_length=317, pattern=_LABEL_KEY_PATTERN)]
LabelValue = Annotated[str, msgspec.Meta(max_length=63, pattern=_LABEL_VALUE_PATTERN)]
LabelValues = Annotated[dict[str, LabelValue], msgspec.Meta(max_length=32)]
Image = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=_IMAGE_PATTERN)]
AnnotationValues = Annotated[
    dict[str, Annotated[str, msgspec.Meta(max_length=4096)]], msgspec.Meta(max_length=32)
]
LongText = Annotated[str, msgspec.Meta(max_length=4096)]
ResourceQuantity = (
    Annotated[int, msgspec.Meta(ge=0)]
    | Annotated[str, msgspec.Meta(pattern=RESOURCE_QUANTITY_PATTERN, max_length=32)]
)
Cidr = Annotated[str, msgspec.Meta(max_length=64)]
_ORIGIN_PATTERN = "^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{0,4})?$"
Origin = Annotated[str, msgspec.Meta(max_length=255, pattern=_ORIGIN_PATTERN)]
Quantities = Annotated[dict[str, ResourceQuantity], msgspec.Meta(max_length=16)]
