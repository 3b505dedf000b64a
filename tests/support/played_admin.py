"""An admin API of the owner with given answers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class PlayedAdmin:
    """Any class that asks the owner by HTTP: Admin, CursorAdmin, PassThroughQueries.

    Each answer is a value, an error to raise, or a function of the request's arguments that returns either, also as a
    coroutine. A test changes an answer by assignment; a request without an answer fails the test.

    Attributes:
        asked: all requests in order, each a tuple of the method's name and its arguments.
        answers: the answers, by name of the method.
    """

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers = answers

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if name not in self.answers:
            raise AttributeError(f"no answer is given for {name}")

        async def ask(*arguments: Any) -> Any:
            self.asked.append((name, *arguments))
            answer = self.answers[name]
            if callable(answer):
                answer = answer(*arguments)
            if asyncio.iscoroutine(answer):
                answer = await answer
            await asyncio.sleep(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask

    def requests(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of a method, in order."""
        return [tuple(arguments) for method, *arguments in self.asked if method == name]

    def count(self, name: str) -> int:
        """Return how often a method was called."""
        return len(self.requests(name))
