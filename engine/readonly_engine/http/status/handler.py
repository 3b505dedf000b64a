"""Answers of `/` and `/status`: the state of the broker as a page and as JSON, within bounds."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from aiohttp import web

from readonly_engine.http.status.gather import Gatherer, NotServedError
from readonly_engine.http.status.page import render, render_error
from readonly_engine.http.status.quota import PageQuota
from readonly_engine.http.status.slices import Slices
from readonly_engine.http.status.style import HEADERS
from readonly_engine.status.document import encode
from readonly_engine.status.view import ViewError, parse_view

if TYPE_CHECKING:
    from readonly_engine.status.state import Status
    from readonly_engine.status.view import View

BUSY: Final = "This broker makes other status pages now, or has made many of them. Load the page again in some seconds."


class StatusPages:
    """Serves the status page and its JSON.

    Args:
        gatherer: reads the state.
    """

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer
        self._quota = PageQuota()

    def add_routes(self, app: web.Application) -> None:
        """Add the paths, also for HEAD."""
        app.router.add_get("/", self._page)
        app.router.add_get("/status", self._document)

    async def _page(self, request: web.Request) -> web.Response:
        return await self._answer(request, as_page=True)

    async def _document(self, request: web.Request) -> web.Response:
        return await self._answer(request, as_page=False)

    async def _answer(self, request: web.Request, *, as_page: bool) -> web.Response:
        try:
            view = parse_view(request.query)
        except ViewError as error:
            return refusal(web.HTTPBadRequest.status_code, "Invalid parameter", str(error), as_page=as_page)
        wait_s = self._quota.enter(asyncio.get_running_loop().time())
        if wait_s:
            response = refusal(web.HTTPServiceUnavailable.status_code, "Busy", BUSY, as_page=as_page)
            response.headers["Retry-After"] = str(math.ceil(wait_s))
            return response
        slices = Slices()
        try:
            status = await self._gatherer.status(view, slices)
            return _response(status, view, as_page=as_page)
        except NotServedError as error:
            return refusal(web.HTTPNotFound.status_code, "Not served here", str(error), as_page=as_page)
        finally:
            self._quota.leave(slices.spent_s)


def _response(status: Status, view: View, *, as_page: bool) -> web.Response:
    if as_page:
        return web.Response(text=render(status, view), content_type="text/html", headers=HEADERS)
    return web.json_response(encode(status), headers=HEADERS)


def refusal(code: int, title: str, reason: str, *, as_page: bool) -> web.Response:
    """Return an answer without a state.

    Args:
        code: the HTTP status.
        title: the error in a few words.
        reason: the reason, and what would be right.
        as_page: whether it is HTML; otherwise it is JSON.
    """
    if as_page:
        text = render_error(title, reason)
        return web.Response(status=code, text=text, content_type="text/html", headers=HEADERS)
    return web.json_response({"reason": reason}, status=code, headers=HEADERS)
