"""What the data source's unit tests share: the hypothesis profile."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("spark", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("spark-ci", settings.get_profile("spark"), derandomize=True)
settings.load_profile("spark-ci" if os.environ.get("CI") == "true" else "spark")
