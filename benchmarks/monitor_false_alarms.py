"""How often the monitor's test gives a false alarm over 1,000 windows, and how soon it tells a fall.

Scores of several kinds, windows of 100 rows after a reference of 1,000, a rate of 5 %. Without a change: the share of
runs with any alarm in 1,000 windows. With a fall by a known part of the scores' standard deviation, after 1, 100 or 900
quiet windows: windows until the alarm. DPC scores are drawn from those of 4,000 rows of the paper's network.
"""

import argparse
import math
from collections.abc import Callable
from typing import Any

import common
import numpy as np
from scipy.stats import beta

import verax
from verax.statistics.anytime import BettingTest

RATE, REFERENCE, ROWS, WINDOWS = 0.05, 1000, 100, 1000
FALLS, QUIET, PATIENCE = (0.1, 0.2, 0.3, 0.5, 1.0), (1, 100, 900), 500
Draw = Callable[[np.random.Generator, int], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="runs of each kind (default 300)")
    parser.add_argument("--quick", action="store_true", help="20 runs")
    options = parser.parse_args()
    options.repeats = 20 if options.quick else options.runs
    common.print_header(f"False alarms of the monitor: {options.repeats} runs of {WINDOWS:,} windows of {ROWS} rows")
    kinds = {
        "DPC of a network": drawn_from(network_scores()),
        "beta(2, 5)": lambda draws, count: draws.beta(2, 5, size=count),
        "normal": lambda draws, count: draws.normal(size=count),
        "0 or 1, 5 % are 1": lambda draws, count: (draws.uniform(size=count) < 0.05).astype(float),
        "Student's t, 3 degrees": lambda draws, count: draws.standard_t(3, size=count),
        "log-normal": lambda draws, count: draws.lognormal(size=count),
        "minus log-normal": lambda draws, count: -draws.lognormal(size=count),  # as of errors, of which low is better
    }
    alarms = {name: [first_alarm(draw, run) for run in range(options.repeats)] for name, draw in kinds.items()}
    rows = [(name, *counted(found)) for name, found in alarms.items()]
    common.print_table(("without a change", "runs with an alarm", "share", "95 % at most"), rows)
    delays = {
        f"{fall} sd after {quiet}": [
            delay(kinds["DPC of a network"], fall, quiet, run) for run in range(max(10, options.repeats // 6))
        ]
        for fall in FALLS
        for quiet in QUIET
    }
    print()
    common.print_table(
        ("DPC of a network falls by", "median windows", "nine of ten", "not within 500"),
        [(name, *quantiles(found)) for name, found in delays.items()],
    )
    path = common.write_results("monitor_false_alarms", options, first_alarms=alarms, delays=delays)
    print(f"\nRaw runs: {path}")


def network_scores() -> Any:
    inputs = common.normal_inputs(4000)
    model = common.paper_mlp()
    attributions = common.attributions_like_a_study(model, inputs, 1)[0]
    problem = verax.Problem(verax.Scorer(model, returns="logits"), inputs)
    return verax.metrics.DirectedPredictionChange("magnitude")(problem, attributions).value.double().numpy()


def drawn_from(scores: Any) -> Draw:
    return lambda draws, count: draws.choice(scores, size=count)


def begun(draw: Draw, run: int) -> tuple[np.random.Generator, BettingTest, float]:
    draws = np.random.default_rng([run, 7])
    reference = draw(draws, REFERENCE)
    return draws, BettingTest.against(reference, RATE), float(reference.std())


def first_alarm(draw: Draw, run: int) -> int | None:
    """The window of the first alarm of a run without a change."""
    draws, test, _ = begun(draw, run)
    for window in range(1, WINDOWS + 1):
        test = test.after(draw(draws, ROWS))
        if test.alarm:
            return window
    return None


def delay(draw: Draw, fall: float, quiet: int, run: int) -> int | None:
    """Windows from a fall to its alarm; None where it takes too long."""
    draws, test, spread = begun(draw, run)
    for _ in range(quiet):
        test = test.after(draw(draws, ROWS))
    for window in range(1, PATIENCE + 1):
        test = test.after(draw(draws, ROWS) - fall * spread)
        if test.alarm:
            return window
    return None


def counted(found: list[int | None]) -> tuple[str, str, str]:
    """Alarms, their share, and where its one-sided 95 % interval of Clopper and Pearson ends."""
    alarms = sum(one is not None for one in found)
    most = beta.ppf(0.95, alarms + 1, len(found) - alarms) if alarms < len(found) else 1.0
    return f"{alarms} of {len(found)}", f"{100 * alarms / len(found):.1f} %", f"{100 * most:.1f} %"


def quantiles(found: list[int | None]) -> tuple[str, str, str]:
    waits = sorted(math.inf if one is None else one for one in found)
    said = [waits[min(len(waits) - 1, int(share * len(waits)))] for share in (0.5, 0.9)]
    half, most = (f"{wait:.0f}" if wait < math.inf else "more than 500" for wait in said)
    return half, most, f"{sum(one is None for one in found)} of {len(found)}"


if __name__ == "__main__":
    main()
