"""Values that several specs share: durations, sizes, names, quantities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import IntOrString, MapOf, Text

PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
HOST = r"[A-Za-z0-9._-]+"
HOST_PORT = f"{HOST}(:{PORT})?"

LOCALHOST = "localhost"


def qualified(host: str, namespace: str) -> str:
    """Return a host name as it is found from outside a namespace: a short name is that of a Service in it.

    Args:
        host: name or address, without a port.
        namespace: of the pool.
    """
    return host if {".", ":"} & set(host) or host.lower() == LOCALHOST else f"{host}.{namespace}"


QUANTITY = IntOrString(
    r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]+)?",
    "must be a quantity, for example 500m or 2 for CPUs and 512Mi or 2Gi for memory",
    rule="type(self) == int ? self >= 0 : isQuantity(self)",
)
INT_OR_PERCENT = IntOrString(
    r"[0-9]+|(100|[1-9]?[0-9])%", "must be a number of brokers or a percentage of them, for example 1 or 25%"
)

SIZE = Text(16, r"[1-9][0-9]*(Ki|Mi|Gi)", "must be a whole number of Ki, Mi or Gi, for example 256Mi")
IMAGE = Text(
    512,
    r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
    "must be an image reference, for example images.example.org/pulsar-readonly/engine:0.1.0",
)
OBJECT_NAME = Text(
    253,
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "must be the name of an object: lower-case letters, digits, '-' and '.'",
)

NAMESPACE_NAME = Text(63, "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "must be the name of a namespace")

DATA_KEY = Text(253, r"[A-Za-z0-9._-]+", "must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'")
MAX_QUANTITIES = 15
"""Quantities of a list or map: the most for which Kubernetes 1.30 accepts the cost of their rule."""
QUANTITIES = MapOf(QUANTITY, MAX_QUANTITIES)


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in ms or s, from 10ms to 9999s, parsed to milliseconds.

    Attributes:
        example: a duration for the error message.
    """

    example: str

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return self._text().openapi()

    def parse(self, value: Any, path: str) -> int:
        """See Schema."""
        text = self._text()
        if not isinstance(value, str):
            raise ApiSpecError(f"{path} {text.right}, not {value!r}")
        match = re.fullmatch(r"([0-9]+)(ms|s)", text.parse(value, path))
        assert match, value
        return int(match[1]) * (1000 if match[2] == "s" else 1)

    def _text(self) -> Text:
        form = f"must be a whole number of ms or s, from 10ms to 9999s, for example {self.example}"
        return Text(16, "[1-9][0-9]{1,6}ms|[1-9][0-9]{0,3}s", form)
