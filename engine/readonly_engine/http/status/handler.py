"""Answers of `/`, `/status`, `/pool` and `/pool/status`: broker and pool as pages and as JSON, within bounds."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiohttp import web

from readonly_engine.http.access import OPEN
from readonly_engine.http.status.gather import Gatherer, NotServedError
from readonly_engine.http.status.members import MemberReader
from readonly_engine.http.status.page import render, render_error
from readonly_engine.http.status.pool_page import render_pool
from readonly_engine.http.status.quota import PageQuota
from readonly_engine.http.status.slices import Slices
from readonly_engine.http.status.style import HEADERS
from readonly_engine.status.document import encode
from readonly_engine.status.pool import MemberAnswer, PoolState
from readonly_engine.status.view import View, ViewError, parse_refresh, parse_view

if TYPE_CHECKING:
    from readonly_engine.http.access import HttpAccess
    from readonly_engine.status.state import Status

BUSY: Final = "This broker makes other status pages now, or has made many of them. Load the page again in some seconds."


class StatusPages:
    """Serves the status page and its JSON.

    Args:
        gatherer: reads the state.
        access: TLS and token of the HTTP ports of the pool.
    """

    def __init__(self, gatherer: Gatherer, access: HttpAccess = OPEN) -> None:
        self._gatherer = gatherer
        self._quota = PageQuota()
        self._members = MemberReader(self._quota.charge, access)

    def add_routes(self, app: web.Application) -> None:
        """Add the paths, also for HEAD."""
        app.router.add_get("/", self._page)
        app.router.add_get("/status", self._document)
        app.router.add_get("/pool", self._pool_page)
        app.router.add_get("/pool/status", self._pool_document)

    async def _page(self, request: web.Request) -> web.Response:
        return await self._answer(request, as_page=True)

    async def _document(self, request: web.Request) -> web.Response:
        return await self._answer(request, as_page=False)

    async def _pool_page(self, request: web.Request) -> web.Response:
        return await self._answer_pool(request, as_page=True)

    async def _pool_document(self, request: web.Request) -> web.Response:
        return await self._answer_pool(request, as_page=False)

    async def _answer(self, request: web.Request, *, as_page: bool) -> web.Response:
        try:
            view = parse_view(request.query)
        except ViewError as error:
            return refusal(web.HTTPBadRequest.status_code, "Invalid parameter", str(error), as_page=as_page)
        if as_page:
            view = replace(view, summary=False)
        busy = self._enter(as_page=as_page)
        if busy is not None:
            return busy
        slices = Slices()
        try:
            status = await self._gatherer.status(view, slices)
            return _response(status, view, as_page=as_page)
        except NotServedError as error:
            return refusal(web.HTTPNotFound.status_code, "Not served here", str(error), as_page=as_page)
        finally:
            self._quota.leave(slices.spent_s)

    async def _answer_pool(self, request: web.Request, *, as_page: bool) -> web.Response:
        """Answer with the state of the pool. A place among the pages is taken after the other brokers have answered.

        A broker that is silent must not keep the places of other viewers.
        """
        try:
            refresh = parse_refresh(request.query)
        except ViewError as error:
            return refusal(web.HTTPBadRequest.status_code, "Invalid parameter", str(error), as_page=as_page)
        busy = self._enter(as_page=as_page)
        if busy is not None:
            return busy
        self._quota.leave(0.0)
        name, uid = self._gatherer.pool
        members = self._gatherer.members()
        others = await self._members.read(name, uid, members)
        busy = self._enter(as_page=as_page)
        if busy is not None:
            return busy
        slices = Slices()
        try:
            own = await self._gatherer.status(View(summary=True), slices)
            itself = [MemberAnswer(one, own) for one in members if one.itself]
            answers = tuple(sorted([*itself, *others], key=lambda one: one.member.url))
            pool = PoolState(name, uid, own.member_count, answers)
            if as_page:
                return web.Response(text=render_pool(pool, refresh), content_type="text/html", headers=HEADERS)
            return web.json_response(pool.document(), headers=HEADERS)
        finally:
            self._quota.leave(slices.spent_s)

    def _enter(self, *, as_page: bool) -> web.Response | None:
        """Take a place among the pages that are made; return the answer if there is none."""
        wait_s = self._quota.enter(asyncio.get_running_loop().time())
        if not wait_s:
            return None
        response = refusal(web.HTTPServiceUnavailable.status_code, "Busy", BUSY, as_page=as_page)
        response.headers["Retry-After"] = str(math.ceil(wait_s))
        return response


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
