"""One client's connection, and all that it opens."""
