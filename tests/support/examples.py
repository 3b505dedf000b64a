"""How many examples hypothesis tries: a third in `make test`, all of them in `make test-all` and by hand."""

import os
from typing import Final

from hypothesis import HealthCheck, settings

EXAMPLES: Final = 60
"""Examples of a property that names no other number, in a long run."""

_SHORT: Final = EXAMPLES // 3


def load_profile(*, short: bool) -> None:
    """Make hypothesis's profile: before the tests are collected, because their modules call `examples`.

    Args:
        short: whether a third of the examples is enough. In CI hypothesis tries the same ones each time.
    """
    settings.register_profile(
        "tests",
        deadline=None,
        max_examples=_SHORT if short else EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=os.environ.get("CI") == "true",
    )
    settings.load_profile("tests")


def examples(full: int) -> int:
    """Return the number of examples of a property that needs `full` in a long run."""
    return full * settings().max_examples // EXAMPLES
