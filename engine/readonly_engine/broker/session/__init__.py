"""Sessions: the connection of one client, with its consumers, producers, requests and topic-list watchers."""
