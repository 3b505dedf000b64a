"""Work at the source cluster: checks, explicit LAC, and the pool's entry in its metadata."""
