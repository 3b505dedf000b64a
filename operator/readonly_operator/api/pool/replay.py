"""ReadOnlyBrokerPool: spec.replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from readonly_engine.config.option import ConfigError
from readonly_engine.config.replay import TIME

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Flag, IntOrString, Rule, Text, declare

_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_PATTERN = (
    rf"2[0-9]{{3}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T{_CLOCK}:[0-5][0-9]([.][0-9]{{1,6}})?(Z|[+-]{_CLOCK})"
)
_TEXT = Text(32, _PATTERN, "must be a time with its zone (RFC 3339), for example 2026-11-21T14:00:00Z")

SPEED = IntOrString(
    "1000|[1-9][0-9]{0,2}([.][0-9]{1,6})?|0[.](0[1-9]|[1-9][0-9]?)[0-9]{0,4}|unlimited",
    'must be a number from 0.01 to 1000, one with a point in quotes, or unlimited; for example 5, "0.5"',
)


@dataclass(frozen=True, slots=True)
class PublishTime:
    """A time in RFC 3339, as text."""

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return _TEXT.openapi()

    def parse(self, value: Any, path: str) -> str:
        """See Schema."""
        text = _TEXT.parse(value, path)
        try:
            TIME.parse(text)
        except ConfigError as error:  # February 30
            raise ApiSpecError(f"{path} {_TEXT.right}, not {value!r}") from error
        return text


@dataclass(frozen=True, slots=True)
class Replay:
    """Replay of past messages.

    Attributes:
        begin: first publish time.
        end: last publish time; empty for no end.
        speed: publish time that passes in a second, or unlimited.
        loop: whether it begins again after its end.
    """

    RULES = (
        Rule(
            f"!has(self.to) || !self.to.matches('^{_PATTERN}$') || !self.from.matches('^{_PATTERN}$')"
            " || timestamp(self.to) > timestamp(self.from)",
            "must be later than from",
            ".to",
        ),
        Rule(
            "!has(self.__loop__) || !self.__loop__ || has(self.to)",
            "is required with loop",
            ".to",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.__loop__) || !self.__loop__ || !has(self.speed) || self.speed != 'unlimited'",
            "must be a number with loop",
            ".speed",
        ),
    )

    begin: str = field(
        metadata=declare(
            PublishTime(),
            "First publish time.",
            required="give a time with its zone, for example 2026-11-21T14:00:00Z",
            name="from",
        )
    )
    end: str = field(
        default="",
        metadata=declare(
            PublishTime(), "Last publish time. Without it, the replay goes on with new messages.", name="to"
        ),
    )
    speed: int | str = field(
        default=1,
        metadata=declare(
            SPEED,
            "Publish time that passes in each second: 1 for the original pace, unlimited for all messages at once. It is the "
            "speed at the start; `kubectl readonly replay` changes it.",
        ),
    )
    loop: bool = field(
        default=False,
        metadata=declare(
            Flag(),
            "Whether the replay begins again after its end, with new cursors. It needs `to`, and a number as speed.",
        ),
    )
