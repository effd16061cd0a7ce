"""What the benchmarks share: the paper's model and data, clocks, memory, facts about the machine, results on disk."""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = (32, 128, 256, 128, 256, 128, 32)
RESULTS = Path(__file__).parent / "results"
WANTED_BYTES = 2**30
PACKAGES = ("torch", "numpy", "captum", "quantus")


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--repeats", type=int, default=5, help="timed repeats of each case (default 5)")
    parser.add_argument("--memory-worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def paper_mlp(features: int = 20, seed: int = 0) -> nn.Sequential:
    """Build the paper's tabular network with seeded weights, in evaluation mode."""
    layers: list[nn.Module] = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for width_in, width_out in zip((features, *HIDDEN), HIDDEN, strict=False):
            layers += [nn.Linear(width_in, width_out), nn.BatchNorm1d(width_out, momentum=None), nn.ReLU()]
            layers.append(nn.Dropout(0.1))
        model = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 1))
        # Untrained batch norms pass on ever smaller signals and the output would hardly depend on the input;
        # a few batches give them the statistics that a trained network has.
        with torch.no_grad():
            for _ in range(4):
                model.train()(torch.randn(512, features))
    return model.eval()


def normal_inputs(rows: int, features: int = 20, seed: int = 1) -> Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed))


def attributions_like_a_study(model: nn.Module, inputs: Tensor, count: int, seed: int = 2) -> Tensor:
    """Stack gradient, input times gradient, and gradients with little to much noise, so that some orders coincide.

    The noise is set so that somewhat more than half of the rows repeat, as they do among the configurations of a real
    study's gradient family (measured there: 2.3 times fewer distinct rows).
    """
    x = inputs.clone().requires_grad_()
    logit = model(x)[:, 0]
    (slope,) = torch.autograd.grad(logit.sum(), x)
    gradient = slope * logit.detach().sign()[:, None]  # of the predicted class
    generator = torch.Generator().manual_seed(seed)
    scale = gradient.std(dim=1, keepdim=True)
    noisy = [
        gradient + level * scale * torch.randn(gradient.shape, generator=generator)
        for level in torch.logspace(-1, 0.2, max(0, count - 2)).tolist()
    ]
    return torch.stack([gradient, inputs * gradient, *noisy][:count])


class TwoClassProbabilities(nn.Module):
    """The binary model as peers want it: one column of probabilities per class, the same numbers as in Verax."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Tensor:
        """Score both classes."""
        logit = self.model(batch)
        return torch.sigmoid(torch.cat((-logit, logit), dim=1))


@contextlib.contextmanager
def recorded(model: nn.Module, look: Callable[[Tensor], Any] = len) -> Iterator[list[Any]]:
    """Record every batch that reaches the model, whoever calls it: its number of rows, or what ``look`` sees in it."""
    seen: list[Any] = []
    handle = model.register_forward_pre_hook(lambda _, batch: seen.append(look(batch[0])))
    try:
        yield seen
    finally:
        handle.remove()


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def interleaved(
    cases: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Time all cases in turn, so that a slow moment of the machine meets each; every round starts with another one."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    for number in range(repeats):
        shift = number % len(order)
        for name in order[shift:] + order[:shift]:
            found[name].append(seconds(cases[name], clock))
    return found


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in times.items()}


def ratios(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Compare two cases round by round, because both meet the same slow moments: quartiles of the ratio of times."""
    found = quantiles([one / other for one, other in zip(above, below, strict=True)], n=4, method="inclusive")
    return found[0], found[1], found[2]


def fastest(times: dict[str, float], prefix: str = "") -> str:
    return min((name for name in times if name.startswith(prefix)), key=times.__getitem__)


def bare_forward(model: nn.Module, rows: Tensor, batch_size: int) -> None:
    """Run the model and nothing else."""
    with torch.inference_mode():
        for batch in rows.split(batch_size):
            model(batch)


def peak_extra_bytes(work: Callable[[], object]) -> dict[str, int]:
    """Measure how far a call raises this process's resident memory above where it stood."""
    before = _resident_bytes()
    # Without this the peak would include what happened before; where it is refused the figure is an upper bound.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    work()
    peak = _peak_bytes()
    return {"before": before, "peak": peak, "extra": peak - before}


def in_fresh_process(script: str, *options: str) -> dict[str, Any]:
    """Run a script's memory worker in a new process and read the JSON that it prints."""
    command = [sys.executable, script, "--memory-worker", *options]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    # ru_maxrss of a new process starts at its parent's peak (Linux keeps it over exec), VmHWM at its own
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "torch_threads": torch.get_num_threads(),
    }


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in (*PACKAGES, "verax")}
    return {"python": platform.python_version(), **found}


def write_results(name: str, options: argparse.Namespace, **content: Any) -> Path:
    """Write everything measured, raw repeats included, as JSON."""
    path = RESULTS / f"{name}{'-quick' if options.quick else ''}.json"
    path.parent.mkdir(exist_ok=True)
    facts = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "versions": versions()}
    path.write_text(json.dumps({**facts, "repeats": options.repeats, **content}, indent=2) + "\n")
    return path


def print_header(title: str) -> None:
    facts = machine()
    print(title)
    print(f"{facts['cpu']}, {facts['cores']} cores, {facts['torch_threads']} torch threads")
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    print()


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print an aligned table: the first column to the left, numbers to the right."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join((row[0].ljust(widths[0]), *numbers)))


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def memory_line(extra: int) -> str:
    reached = verdict(extra < WANTED_BYTES)
    return f"Peak extra memory of the Verax call: {extra / 2**20:,.0f} MiB ({reached}, wanted < 1 GiB)"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *lines))


def filled(text: str, tables: dict[str, str]) -> str:
    """The page with each table between its two marks."""
    for name, table in tables.items():
        first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, rest = text.split(first)
        _, after = rest.split(last)
        text = f"{before}{first}\n\n{table}\n\n{last}{after}"
    return text
