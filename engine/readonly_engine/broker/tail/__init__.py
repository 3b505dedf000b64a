"""The tail of a topic, pushed by its owner while messages are few."""
