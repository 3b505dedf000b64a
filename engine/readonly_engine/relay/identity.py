"""As whom a connection speaks to the owner: with the client's own credentials."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Identity:
    """The credentials of a CONNECT; connections to the owner are shared by clients with equal ones.

    Attributes:
        auth_method: name of the authentication method, empty for none.
        auth_data: the credentials; never printed.
    """

    auth_method: str = ""
    auth_data: bytes = field(default=b"", repr=False)
