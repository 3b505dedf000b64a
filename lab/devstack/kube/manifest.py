"""Templates of manifests: replaces ${NAME}, and keeps everything else, such as $(POD), which Kubernetes replaces."""

from __future__ import annotations

import re


def fill(text: str, **values: object) -> str:
    """Replace every ${NAME} by its value.

    Raises:
        KeyError: a name has no value, which is an error of the manifest or the caller.
    """
    return re.sub(r"\$\{(\w+)\}", lambda blank: str(values[blank[1]]), text)
