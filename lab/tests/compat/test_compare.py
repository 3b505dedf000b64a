"""Comparison of two runs of a scenario as a cell; a scenario that fails at the owner is not an equal cell."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longtests.compat.cells import Verdict
from longtests.compat.process import Driver, DriverError, OperationError, UnsupportedError
from longtests.compat.registry import Scenario
from longtests.compat.run import compare
from longtests.compat.session import Environment, Session

ANSWERS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    number, op = request.pop("request"), request.pop("op")
    if op == "end":
        sys.exit(0)
    if op == "silent":
        continue
    if op == "nonsense":
        print("what?", flush=True)
        continue
    ok = {"hello": {"client": "played", "version": "1"}}.get(op, request)
    error = {"kind": op[3:], "raw": "Raw", "message": "no"}
    answer = {"error": error} if op.startswith("no-") else {"ok": ok}
    print(json.dumps({"request": number, **answer}), flush=True)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver([sys.executable, "-c", ANSWERS], tmp_path / "log")
    yield driver
    driver.close()


class At:
    """A target that only has a name."""

    url = "pulsar://nowhere.invalid:6650"
    view: Any = None

    def __init__(self, name: str) -> None:
        self.name = name

    def restart(self, topic: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to give back."""


def _cell(driver: Driver, run: Callable[[Session], Any], known: str = "") -> tuple[Verdict, str]:
    place = Environment(None, "public/any", "public/strict", "public/dedup", "keys")  # type: ignore[arg-type] - not asked
    cell = compare(Scenario("it", "Theme", "It", run), driver, (At("owner"), At("pool")), place, known)
    return cell.verdict, cell.detail


def test_the_same_observation_is_equal(driver: Driver) -> None:
    assert _cell(driver, lambda _: [1, "a"]) == (Verdict.EQUAL, "")


def test_another_observation_is_different(driver: Driver) -> None:
    assert _cell(driver, lambda s: s.target.name) == (Verdict.DIFFERENT, "owner 'owner'; pool 'pool'")


def test_a_check_that_fails_only_through_the_pool_is_a_difference(driver: Driver) -> None:
    def run(s: Session) -> Any:
        s.equal(s.target.name, "owner", "its name")
        return 1

    assert _cell(driver, run)[0] is Verdict.DIFFERENT


def test_a_broker_that_does_not_answer_is_a_difference(driver: Driver) -> None:
    def run(s: Session) -> Any:
        if s.target.name == "pool":
            raise TimeoutError("timed out")
        return 1

    assert _cell(driver, run) == (Verdict.DIFFERENT, "owner 1; pool 'timed out'")


@pytest.mark.parametrize("known", ["", "a fault"])
def test_a_check_that_fails_at_the_owner_is_never_equal(driver: Driver, known: str) -> None:
    verdict = Verdict.QUIRK if known else Verdict.BROKEN
    assert _cell(driver, lambda s: s.check(False, "it holds"), known)[0] is verdict


def test_a_known_fault_of_the_client_must_be_the_same_one_through_the_pool(driver: Driver) -> None:
    assert _cell(driver, lambda s: s.check(False, s.target.name), "a fault")[0] is Verdict.DIFFERENT


def test_what_a_client_does_not_offer(driver: Driver) -> None:
    assert _cell(driver, lambda s: s.driver.call("no-Unsupported"))[0] is Verdict.NOT_OFFERED


def test_an_error_of_the_client(driver: Driver) -> None:
    assert _cell(driver, lambda s: s.driver.call("no-Timeout"))[0] is Verdict.BROKEN
    assert _cell(driver, lambda s: s.refused(lambda: s.driver.call("no-Timeout"), "Timeout"))[0] is Verdict.EQUAL
    assert _cell(driver, lambda s: s.refused(lambda: s.driver.call("no-Timeout"), "ConsumerBusy"))[0] is Verdict.BROKEN
    assert _cell(driver, lambda s: s.refused(lambda: s.driver.call("fine"), "Timeout"))[0] is Verdict.BROKEN


def test_an_unsupported_op_is_not_taken_for_a_refusal(driver: Driver) -> None:
    assert _cell(driver, lambda s: s.refused(lambda: s.driver.call("no-Unsupported"), "Unsupported"))[0] is (
        Verdict.NOT_OFFERED
    )


def test_answers_and_errors_of_a_driver(driver: Driver) -> None:
    assert (driver.client, driver.version) == ("played", "1")
    assert driver.call("echo", a=1, b=None) == {"a": 1}
    with pytest.raises(OperationError, match=r"ConsumerBusy \(Raw\): no-ConsumerBusy: no"):
        driver.call("no-ConsumerBusy")
    with pytest.raises(UnsupportedError):
        driver.call("no-Unsupported")


def test_a_driver_that_does_not_answer_has_a_deadline(driver: Driver) -> None:
    with pytest.raises(DriverError, match=r"silent: no answer after 0.1 s"):
        driver.call("silent", deadline_s=0.1)


@pytest.mark.parametrize("op", ["end", "nonsense"])
def test_a_driver_that_ends_or_says_nonsense_fails_all_that_wait(driver: Driver, op: str) -> None:
    waiting = driver.begin("silent")
    with pytest.raises(DriverError):
        driver.call(op)
    with pytest.raises(DriverError):
        driver.result("silent", waiting)
    with pytest.raises(DriverError):
        driver.call("echo")
