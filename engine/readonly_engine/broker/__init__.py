"""The broker that clients talk to; each package in it is one room, and imports lower rooms only (`tests/unit/test_layers.py`)."""
