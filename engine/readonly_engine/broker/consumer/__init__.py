"""One consumer of a client: its admission, and one class for each way on which it is served."""
