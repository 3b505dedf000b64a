"""The read engine: an asyncio server that speaks Pulsar's protocol and reads entries straight from the bookies.

The packages, each of which may use only those after it:

broker → relay → topic → bookkeeper, metadata → wire.
"""

__version__ = "0.1.0"
