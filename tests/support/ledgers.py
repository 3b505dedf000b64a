"""A topic's list of ledgers, and the chain of them."""

from readonly_engine.topic.chain import LedgerChain
from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

CLOSED_MS = 1 << 50
"""Time at which ledgers were closed: after all publish times."""


def ledger_list(*ledgers: int | tuple[int, int] | tuple[int, int, int]) -> ManagedLedgerInfo:
    """A topic's list, as its owner stores it.

    Args:
        ledgers: in order: the id and the number of entries of a closed ledger, and when it was closed, or the id of an open one.
    """
    made = ManagedLedgerInfo()
    for ledger in ledgers:
        if isinstance(ledger, tuple):
            closed_ms = ledger[2] if len(ledger) > 2 else CLOSED_MS
            made.ledger_info.add(ledger_id=ledger[0], entries=ledger[1], size=1, timestamp=closed_ms)
        else:
            made.ledger_info.add(ledger_id=ledger, timestamp=0)
    return made


def chain_of(*ledgers: int | tuple[int, int], lac: int | None = None) -> LedgerChain:
    """A chain of ledgers, the last of which is readable up to the entry `lac`; None if bookies have not answered yet."""
    chain = LedgerChain()
    chain.topic_changed(ledger_list(*ledgers))
    if lac is not None:
        last = ledgers[-1]
        assert isinstance(last, int)
        chain.lac_advanced(last, lac)
    return chain
