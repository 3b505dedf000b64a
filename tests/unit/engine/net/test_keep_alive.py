"""The round of the keep-alive checks."""

from readonly_engine.net.keep_alive import SLOTS, KeepAlive


class Connection:
    def __init__(self, keep_alive: KeepAlive) -> None:
        self.checks = 0
        self._keep_alive = keep_alive
        keep_alive.add(self)

    def check_alive(self) -> None:
        self.checks += 1


def test_each_connection_is_checked_once_a_round_and_a_new_one_after_a_whole_round():
    keep_alive = KeepAlive()
    connections = []
    for _ in range(SLOTS):
        connections.append(Connection(keep_alive))
        keep_alive.tick()
    assert [connection.checks for connection in connections] == [1] + [0] * (SLOTS - 1)
    for _ in range(SLOTS - 1):
        keep_alive.tick()
    assert [connection.checks for connection in connections] == [1] * SLOTS


def test_one_that_is_gone_is_not_checked_and_may_go_while_its_slot_is():
    keep_alive = KeepAlive()
    gone, leaving = Connection(keep_alive), Connection(keep_alive)
    keep_alive.discard(gone)
    leaving.check_alive = lambda: keep_alive.discard(leaving)
    for _ in range(2 * SLOTS):
        keep_alive.tick()
    assert gone.checks == 0
    assert not any(keep_alive._slots)
