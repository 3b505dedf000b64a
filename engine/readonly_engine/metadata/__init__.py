"""The cluster's metadata store: topics, ledgers and bookies. It is read and watched; brokers write only nodes of their own."""
