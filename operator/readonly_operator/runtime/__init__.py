"""The operator's process: watches, workers, leader election."""
