"""The broker as a whole: assembly, drain, rebalance."""
