"""Managing the writable brokers' explicit LAC: agree (wishes), see (seen), plan, act, one step at a time."""
