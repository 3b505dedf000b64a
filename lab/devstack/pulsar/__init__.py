"""A Pulsar cluster of the stock distribution as processes on 127.0.0.1: ZooKeeper, bookies and brokers."""
