"""Manifests with blanks: ${NAME} is filled in, everything else (such as $(POD), which Kubernetes fills in) stays."""

from __future__ import annotations

import re


def fill(text: str, **values: object) -> str:
    """Fill in every ${NAME}.

    Raises:
        KeyError: a blank has no value; a mistake in the manifest or its caller.
    """
    return re.sub(r"\$\{(\w+)\}", lambda blank: str(values[blank[1]]), text)
