"""The command `pulsar-readonly wake`: it stands in for a pool without brokers, until a client needs them."""
