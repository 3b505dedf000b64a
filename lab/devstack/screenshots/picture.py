"""Make screenshots small: few colours are enough for text."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image

from devstack.errors import DevstackError

COLOURS: Final = 32
"""Colours of a picture: those of the text's edges are most of them."""

MAX_BYTES: Final = 80_000
"""Size of a picture in the repository, which keeps each version of it."""


def smaller(png: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a PNG with few colours.

    Raises:
        DevstackError: it still has more than `max_bytes`.
    """
    with Image.open(io.BytesIO(png)) as picture:
        made = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        out = io.BytesIO()
        made.save(out, "PNG", optimize=True)
    if len(out.getvalue()) > max_bytes:
        raise DevstackError(
            f"a screenshot of {made.width} x {made.height} px has {len(out.getvalue()):,} bytes, and may have {max_bytes:,}",
            "show fewer topics",
        )
    return out.getvalue()
