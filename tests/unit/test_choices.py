"""Options with few values: errors have them as words, and letters may be of any case."""

import argparse
import importlib
from collections.abc import Iterator

import pytest
from readonly_engine.command import PARTS
from readonly_operator.kubectl import command as kubectl


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, (module, _) in PARTS.items():
        found = "readonly_engine.config.arguments" if name == "serve" else module
        yield name, importlib.import_module(found).parser()
    yield "kubectl-readonly", kubectl.parser()


def options(
    name: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from options(f"{name} {word}", inner)
        elif action.choices and action.option_strings:
            yield f"{name} {action.option_strings[-1]}", parser, action


CASES = [one for name, parser in parsers() for one in options(name, parser)]


@pytest.mark.parametrize(("parser", "action"), [pytest.param(*rest, id=name) for name, *rest in CASES])
def test_values_are_words_of_any_case(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
    assert action.choices is not None
    for value in action.choices:
        assert type(value) is str, "errors print it as it is in Python"
        for text in (value, value.upper(), value.capitalize()):
            assert parser._get_value(action, text) == value


def test_there_are_such_options() -> None:
    assert {"serve --cursors", "serve --tail", "export --format", "operator --log-level"} <= {
        name for name, *_ in CASES
    }
