"""Sans-IO codecs: Pulsar frames, BookKeeper frames and entries, what ZooKeeper holds. No socket, clock, log or environment."""
