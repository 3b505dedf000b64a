"""Pictures of what users see, from a real pool with traffic: `python -m devstack screenshots`."""
