"""A real Pulsar cluster as processes on 127.0.0.1: ZooKeeper, bookies and brokers of the stock distribution."""
