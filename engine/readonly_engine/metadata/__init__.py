"""What the cluster's metadata store says: topics, ledgers, bookies. Read and watched; only our own nodes are written."""
