"""Shapes in annotations are checked while the tests run, and nothing depends on chance or on the machine's speed."""

import os
import signal

from hypothesis import HealthCheck, settings

from type_checks import check_types_of

settings.register_profile(
    "verax", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("verax")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; tests send it to children
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each of several workers: more would stand in each other's way
    os.environ.setdefault("OMP_NUM_THREADS", "1")

check_types_of("verax")
