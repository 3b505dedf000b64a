"""`make -C lab replay`: a recorded week is replayed to stock clients, at a pace and at once, with figures."""
