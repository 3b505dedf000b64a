"""Known differences between owner and pool, and faults that a framework has at any server, each with its reason."""

from __future__ import annotations

from typing import Final

ANY: Final = "*"

REASONS: Final[dict[tuple[str, str, str], str]] = {
    ("rust-pulsar", ANY, "pool-kill"): (
        "A lookup may name a killed broker until its session ends, 10 s later. This client tries that address for 40 s, "
        "without another lookup, and then ends. By its source it does the same after the death of an owner."
    ),
    (
        "python-mqclient",
        ANY,
        ANY,
    ): "It acks by serialized ids. Its client then knows nothing of the rest of a batch, and acks no batch, at the owner too.",
}
"""Reasons by program, type and case; ANY stands for all of them."""


def reason(program: str, type_: str, case: str) -> str:
    """Return why a run is not as it should be; empty if no reason is known."""
    for each_type in (type_, ANY):
        for each_case in (case, ANY):
            if found := REASONS.get((program, each_type, each_case)):
                return found
    return ""
