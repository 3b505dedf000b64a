"""Work at the writable cluster: checks, explicit LAC, and the pool's entry in its metadata."""
