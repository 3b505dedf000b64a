"""Login of the command at an OAuth 2.0 server, with the options of `serve`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.oauth2 import OAuth2Login
from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.subscriptions.settings import ToolConfig


def access_token(login: OAuth2Login) -> str:
    """Return the access token.

    Raises:
        ToolError: there is none; without one, each request would be refused for another reason.
    """
    try:
        return login.get()
    except OwnerUnavailableError as error:
        raise ToolError(f"--{error}") from error


@asynccontextmanager
async def oauth2_login(config: ToolConfig) -> AsyncIterator[OAuth2Login | None]:
    """Have an access token that is renewed; None without --admin-oauth2.

    Raises:
        ToolError: a file of the option cannot be used.
    """
    if config.admin_oauth2 is None:
        yield None
        return
    try:
        login = OAuth2Login(config.admin_oauth2)
    except (OSError, ValueError) as error:
        raise ToolError(f"--admin-oauth2: {error}") from error
    await login.refresh()
    renewing = asyncio.get_running_loop().create_task(login.follow())
    try:
        yield login
    finally:
        renewing.cancel()
