"""The admin API that the tests ask."""

import pytest

from tests.unit.operator.cluster.local_cursors.admin_world import AdminWorld


@pytest.fixture
def world():
    made = AdminWorld()
    yield made
    made.close()
