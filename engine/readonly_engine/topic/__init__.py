"""One topic as one ordered log of entries across its ledgers."""
