"""Replay pools: past traffic for unchanged clients, with cursors of the pool's own in the metadata store."""
