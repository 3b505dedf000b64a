"""Sans-IO codecs: Pulsar frames, BookKeeper frames and entries, ZooKeeper nodes. No socket, clock, log or environment."""
