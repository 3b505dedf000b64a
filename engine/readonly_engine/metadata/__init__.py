"""What the cluster's metadata store says: topics, ledgers, bookies, membership. Read and watched; only our own nodes are written."""
