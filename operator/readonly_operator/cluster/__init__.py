"""Work at the source cluster: checks, explicit LAC, and the entry in its metadata."""
