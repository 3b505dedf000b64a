"""An asyncio client that reads from bookies: never fences, never writes."""
