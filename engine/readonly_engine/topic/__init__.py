"""One topic as one ordered log of entries, whatever ledgers it lies in."""
