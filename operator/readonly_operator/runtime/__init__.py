"""Process of the operator: watches, workers, leader election."""
