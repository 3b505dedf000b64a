import gc

import pytest
from readonly_engine import collector


@pytest.fixture
def restored():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_is_there_is_looked_at_no_more_and_new_cycles_seldom_but_still(restored):
    collector.tune_garbage_collector()
    assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_threshold() == collector.THRESHOLDS
