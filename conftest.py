"""Shapes in annotations are checked while the tests run, and nothing depends on chance or on the machine's speed."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from type_checks import begin_test, check_types_of

settings.register_profile(
    "verax",
    max_examples=40,  # the same in every run: more would take time and find nothing new
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(  # `make explore`: other examples in every run, and those that failed once again
    "explore", max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("verax")

# What `make test-fast` leaves out: documentation, packaging, Ray, object stores, processes that are killed, browsers,
# training, and whatever else takes long. Everything that is found broken here is found by `make test`.
SLOW = (
    "src",  # the examples of docstrings
    "tests/auditing/test_audit.py",
    "tests/cli/test_contract.py",
    "tests/cli/test_own_code.py",
    "tests/cli/test_shell.py",
    "tests/contract",  # every metric, method and adapter passes through the same suites
    "tests/core/test_engine.py",
    "tests/faults",
    "tests/fuzz",
    "tests/journeys",
    "tests/paper",
    "tests/perturbation/test_adaptive.py",
    "tests/report/test_browser.py",
    "tests/report/test_figures.py",
    "tests/report/test_packages.py",
    "tests/report/test_plots.py",
    "tests/scale/test_object_store.py",
    "tests/scale/test_ray.py",
    "tests/scale/test_spark.py",
    "tests/scale/test_workers.py",
    "tests/scoring/model_files/test_foreign_files.py",  # opened by processes of their own
    "tests/scoring/model_files/test_skops_files.py",
    "tests/scoring/test_precision.py",  # compiles
    "tests/study",
    "tests/test_dead_ends.py",
    "tests/test_demo.py",
    "tests/test_device.py",
    "tests/test_docs.py",
    "tests/test_import.py",
    "tests/test_notebooks.py",
    "tests/test_other_data.py",
    "tests/test_outside.py",
    "tests/test_packaging.py",
    "tests/test_public_api.py",
    "tests/test_readme.py",
    "tests/test_results.py",
    "tests/tuning",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer ``--fast``."""
    parser.addoption("--fast", action="store_true", help="leave out what takes long: SLOW in conftest.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--fast`` leave out what is slow, without importing it; None leaves the decision to others."""
    if not config.getoption("--fast"):
        return None
    place = collection_path.relative_to(config.rootpath).as_posix()
    return True if place in SLOW else None


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; tests send it to children
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each of several workers: more would stand in each other's way
    os.environ.setdefault("OMP_NUM_THREADS", "1")

check_types_of("verax")

import verax  # noqa: E402  # after the line above, which checks what is imported from then on

for name in verax.__all__:
    # Before doctests are collected: pytest would execute a module that is not imported yet a second time, and an
    # object of one of two classes of the same name is no instance of the other.
    getattr(verax, name)

from verax.attribution import METHODS  # noqa: E402
from verax.auditing.trials.base import TRIALS  # noqa: E402
from verax.core import registry  # noqa: E402
from verax.data import catalogue  # noqa: E402
from verax.metrics import METRICS  # noqa: E402
from verax.replacement import REPLACEMENTS  # noqa: E402
from verax.scoring.model_files.opening import _OPENERS  # noqa: E402

gc.disable()  # while modules are imported and tests collected, all of which stays: a fifth of that time is searching it


REGISTERED: tuple[dict[str, Any], ...] = (
    METHODS._known,
    METRICS._known,
    REPLACEMENTS._known,
    TRIALS._known,
    catalogue._SOURCES,
    _OPENERS,
)


@pytest.fixture(autouse=True)
def _forget_what_a_test_registers() -> Iterator[None]:
    """Names that a test or an example defines are no names of Verax for those that come later in the same process."""
    before, plugins = [dict(known) for known in REGISTERED], list(registry._plugins)
    yield
    for known, kept in zip(REGISTERED, before, strict=True):
        known.clear()
        known.update(kept)
    for name in registry._plugins[len(plugins) :]:
        sys.modules.pop(name, None)  # imported again, it registers again
    registry._plugins[:] = plugins


def pytest_runtest_setup() -> None:
    """Check the first calls of this test anew."""
    begin_test()


def pytest_collection_finish() -> None:
    """Search for cycles again, but not in what is there by now."""
    gc.freeze()
    gc.enable()
