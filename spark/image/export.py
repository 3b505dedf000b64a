"""What spark-submit and the operators of Spark on Kubernetes run: `pulsar-readonly export`, with its options as arguments."""

from __future__ import annotations

import sys

from readonly_spark.export.command import main

sys.exit(main())
