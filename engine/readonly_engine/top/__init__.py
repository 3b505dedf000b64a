"""`pulsar-readonly top`: figures of brokers in a terminal."""
