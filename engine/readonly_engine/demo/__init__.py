"""`pulsar-readonly demo`: a stock Pulsar, read-only brokers and stock clients, with a table of the results."""
