"""`pulsar-readonly topic`: list, show and read topics directly from storage, without requests to brokers."""
