"""Localities such as `/zone/rack`: their distance, and the racks of bookies.

Racks are stored by `pulsar-admin bookies set-bookie-rack` (BookiesRackConfiguration, BookieRackAffinityMapping).
"""

from __future__ import annotations

import json
from typing import Final

from readonly_engine.metadata.errors import MetadataError

RACKS_PATH: Final = "/bookies"


def decode_racks(value: bytes) -> dict[str, str]:
    """Return bookie ids with their `/rack` or `/zone/rack`. A bookie without a rack, or with `/` alone, is left out.

        {group: {bookie id: {"rack": text, "hostname": text}}}

    Raises:
        MetadataError: the value has another form.
    """
    try:
        groups = json.loads(value) if value else {}
        noted = [(bookie, info["rack"]) for group in groups.values() for bookie, info in group.items()]
        return {bookie: "/" + place for bookie, rack in noted if rack and (place := rack.strip().strip("/"))}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError(f"{RACKS_PATH} is damaged: it has no racks of bookies: {error}") from error


def distance(here: str, there: str) -> int:
    """Return the number of levels of `here` that differ between two network locations such as `/zone/rack`.

    An unknown location is farthest.
    """
    mine = here.strip("/").split("/")
    theirs = there.strip("/").split("/")
    shared = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        shared += 1
    return len(mine) - shared
