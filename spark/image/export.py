"""The application of spark-submit and of Spark operators on Kubernetes: `pulsar-readonly export` with its options."""

from __future__ import annotations

import sys

from readonly_spark.export.command import main

sys.exit(main())
