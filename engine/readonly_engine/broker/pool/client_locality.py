"""Locality that a client gives in its LOOKUP, as Kafka's clients do with `client.rack` (KIP-392). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import is_locality

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandLookupTopic

RACK_PROPERTY: Final = "rack"
"""Key of the lookup properties (PIP-368, which has this key in its example)."""

MAX_LOCALITY_CHARS: Final = 256
"""A client may send megabytes; a longer locality counts as none."""

MAX_PROPERTIES: Final = 100
"""Lookup properties that are examined. A client may send a million in one frame."""


def client_locality(lookup: CommandLookupTopic) -> str:
    """Return the locality that a client gives; empty if it gives none, or an invalid one.

    The lookup property wins. Clients without lookup properties give the locality as the name of their listener.
    """
    for item in lookup.properties[:MAX_PROPERTIES]:
        if item.key == RACK_PROPERTY and (found := _locality_in(item.value)):
            return found
    name = lookup.advertised_listener_name
    return name if names_locality(name) else ""


def names_locality(listener: str) -> bool:
    """Return whether the name of a listener is a locality. Names of real listeners have no slash (PIP-61)."""
    return len(listener) <= MAX_LOCALITY_CHARS and is_locality(listener)


def _locality_in(value: str) -> str:
    """Return the locality in a property. Its first slash may be missing, because values of `client.rack` have none."""
    if len(value) > MAX_LOCALITY_CHARS:
        return ""
    text = f"/{value.strip().strip('/')}"
    return text if is_locality(text) else ""
