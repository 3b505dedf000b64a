"""Which stock clients there are: for each language its newest release, and the one that was newest two years before it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from devstack.errors import DevstackError

Language = Literal["python", "java", "go"]

LOCKS: Final = Path(__file__).parent / "locks"
"""Packages of each client with checksums; `python -m devstack clients lock` generates these files."""


@dataclass(frozen=True, slots=True)
class ClientVersion:
    """One release of a client.

    Attributes:
        language: of the client.
        version: as its registry names it, without a leading v.
        released: the month in which it was made, as YYYY-MM, from its own files.
    """

    language: Language
    version: str
    released: str

    def __str__(self) -> str:
        return f"{self.language}-{self.version}"


CLIENTS: Final[tuple[ClientVersion, ...]] = (
    ClientVersion("python", "3.13.0", "2026-06"),
    ClientVersion("python", "3.5.0", "2024-04"),
    ClientVersion("java", "4.2.4", "2026-07"),
    ClientVersion("java", "4.0.0", "2024-10"),
    ClientVersion("go", "0.19.0", "2026-03"),
    ClientVersion("go", "0.14.0", "2024-09"),
)


def select(names: list[str]) -> tuple[ClientVersion, ...]:
    """The clients of these names, in the order of `CLIENTS`; all when there is no name.

    Args:
        names: each a language or a client's text, as `java` and `java-4.0.0`.

    Raises:
        DevstackError: a name fits no client.
    """
    for name in names:
        if not any(name in {client.language, str(client)} for client in CLIENTS):
            known = ", ".join(map(str, CLIENTS))
            raise DevstackError(f"there is no client called {name}", f"a language, or one of: {known}")
    return tuple(client for client in CLIENTS if not names or {client.language, str(client)} & set(names))
