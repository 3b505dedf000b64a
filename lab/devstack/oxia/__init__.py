"""The metadata store Oxia."""
