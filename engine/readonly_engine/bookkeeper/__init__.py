"""An asyncio client that reads from bookies. It never fences and never writes."""
