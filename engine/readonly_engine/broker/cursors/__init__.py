"""Local cursors: cursors of subscriptions that a pool keeps itself, in a compacted topic of the source cluster."""
