"""Event loops for tests that are coroutines."""

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final

import pytest

from tests.support.examples import load_profile

TEST_S: Final = 300.0
"""Time after which a test that is a coroutine fails: much, because tests share their machine with others."""


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis try fewer examples where the nightly tests are left out."""
    load_profile(short="not nightly" in config.option.markexpr)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own.

    A fixture that is an asynchronous context manager is entered in that loop, and the test gets what it yields.
    A fixture `loop_factory` makes the loop.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        async with asyncio.timeout(TEST_S), AsyncExitStack() as entered:
            for name, value in arguments.items():
                if AbstractAsyncContextManager in type(value).__mro__:
                    arguments[name] = await entered.enter_async_context(value)
            await pyfuncitem.obj(**arguments)

    with asyncio.Runner(loop_factory=pyfuncitem.funcargs.get("loop_factory")) as runner:
        runner.run(run())
    return True
