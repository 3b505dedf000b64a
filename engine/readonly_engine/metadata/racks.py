"""Where bookies are, as `pulsar-admin bookies set-bookie-rack` notes it (BookiesRackConfiguration, BookieRackAffinityMapping)."""

from __future__ import annotations

import json
from typing import Final

from readonly_engine.metadata.errors import MetadataError

RACKS_PATH: Final = "/bookies"


def decode_racks(value: bytes) -> dict[str, str]:
    """From bookie ids to `/rack` or `/zone/rack`. A bookie without a rack, or with `/` alone, is nowhere.

        {group: {bookie id: {"rack": text, "hostname": text}}}

    Raises:
        MetadataError: not such a node.
    """
    try:
        groups = json.loads(value) if value else {}
        noted = [(bookie, info["rack"]) for group in groups.values() for bookie, info in group.items()]
        return {bookie: "/" + place for bookie, rack in noted if rack and (place := rack.strip().strip("/"))}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError(f"{RACKS_PATH} does not say where the bookies are: {error}") from error
