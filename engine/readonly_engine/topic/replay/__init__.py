"""Replay of past traffic: the entries of a topic are released as the replay's clock passes their publish times."""
