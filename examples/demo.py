"""Are these attributions faithful? Two models on real data, three attributions each, three metrics, one call per model.

Run it from anywhere: ``python examples/demo.py``. The data come with scikit-learn; nothing is downloaded.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import verax

SEED = 0
HEAD = ("model", "accuracy", "attribution", "PC", "DPC", "Infidelity in 1e-4", "rows", "seconds")


@dataclass(frozen=True)
class Data:
    """Standardised inputs and labels."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Line:
    """One line of the table: how faithful one attribution of one model is."""

    model: str
    accuracy: float
    attribution: str
    pc: float
    dpc: float
    infidelity: float
    infidelity_error: float
    rows: int
    seconds: float


def load() -> Data:
    """Split the breast-cancer data and standardise them on the training part."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        inputs, labels, test_size=0.3, random_state=SEED, stratify=labels
    )
    scaler = StandardScaler().fit(train)
    return Data(
        torch.tensor(scaler.transform(train), dtype=torch.float32),
        torch.tensor(train_labels, dtype=torch.float32),
        torch.tensor(scaler.transform(test), dtype=torch.float32),
        torch.tensor(test_labels, dtype=torch.float32),
    )


def fit(model: nn.Module, data: Data, epochs: int = 200) -> nn.Module:
    """Train a model with one logit, starting from weights drawn with a generator of its own."""
    generator = torch.Generator().manual_seed(SEED)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    loss_of = nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        optimizer.zero_grad()
        loss_of(model(data.train)[:, 0], data.train_labels).backward()
        optimizer.step()
    return model.eval()


def accuracy(model: nn.Module, data: Data) -> float:
    """Share of test inputs that are classified rightly."""
    with torch.no_grad():
        predicted = model(data.test)[:, 0] > 0
    return float((predicted == data.test_labels.bool()).float().mean())


def explain(problem: verax.Problem) -> dict[str, Tensor]:
    """Attribute the logit of the predicted class in three ways, the last one worthless on purpose."""
    gradient = verax.attribution.Gradient()(problem)
    return {
        "gradient": gradient,
        "input*gradient": problem.inputs * gradient,
        "random": verax.attribution.Random(seed=SEED)(problem),
    }


def measure(name: str, model: nn.Module, data: Data) -> list[Line]:
    """Evaluate all attributions of a model in one call."""
    scorer = verax.Scorer(model, returns="logits")  # its one output is the logit of class 1
    problem = verax.Problem(scorer, data.test)
    attributions = explain(problem)
    evaluation = verax.evaluate(problem, attributions, ["pc", "dpc", "infidelity"])
    means = {metric: result.mean() for metric, result in evaluation.items()}
    errors = evaluation["infidelity"].mean_standard_error
    return [
        Line(
            model=name,
            accuracy=accuracy(model, data),
            attribution=one,
            pc=means["pc"][one].mean,
            dpc=means["dpc"][one].mean,
            infidelity=means["infidelity"][one].mean,
            infidelity_error=errors[one],
            rows=evaluation.rows,
            seconds=evaluation.seconds,
        )
        for one in attributions
    ]


def table(lines: list[Line]) -> str:
    """Align the lines; what belongs to a model as a whole stands in its first line only."""
    cells = [HEAD]
    for before, line in zip((None, *lines), lines, strict=False):
        shown = _cells(line)
        if before and before.model == line.model:
            shown = ("", "", *shown[2:6], "", "")
        cells.append(shown)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = []
    for row in cells:
        pairs = zip(HEAD, row, widths, strict=True)
        words = ("model", "attribution")
        aligned.append(
            "  ".join(cell.ljust(width) if head in words else cell.rjust(width) for head, cell, width in pairs)
        )
    return "\n".join(line.rstrip() for line in (aligned[0], "-" * len(aligned[0]), *aligned[1:]))


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.model,
        f"{line.accuracy:.1%}",
        line.attribution,
        f"{line.pc:+.4f}",
        f"{line.dpc:+.4f}",
        f"{line.infidelity * 1e4:.3f} ± {line.infidelity_error * 1e4:.3f}",
        f"{line.rows:,}",
        f"{line.seconds:.2f}",
    )


def reading(lines: list[Line]) -> str:
    """Say how to read the table and what is best in it."""

    def best(value: Callable[[Line], float]) -> str:
        models = dict.fromkeys(line.model for line in lines)
        winners = [max((line for line in lines if line.model == name), key=value).attribution for name in models]
        return winners[0] if len(set(winners)) == 1 else " and ".join(winners)

    return (
        "PC: which attribution explains the way to the baseline (higher is better)? "
        f"{best(lambda line: line.pc)}\n"
        "DPC: which explains the model near the input (higher is better)? "
        f"{best(lambda line: line.dpc)}\n"
        "Infidelity: the same by random perturbations (lower is better; ± Monte-Carlo error). "
        f"{best(lambda line: -line.infidelity)}\n"
        "rows, seconds: one call for all metrics and attributions of a model."
    )


def main() -> list[Line]:
    """Train, explain, evaluate, print."""
    data = load()
    width = data.train.shape[1]
    models = {
        "logistic": nn.Linear(width, 1),
        "MLP": nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1)),
    }
    lines = [line for name, model in models.items() for line in measure(name, fit(model, data), data)]
    print(f"Breast-cancer data, {len(data.train)} training and {len(data.test)} test inputs, {width} features\n")
    print(table(lines))
    print(f"\n{reading(lines)}")
    return lines


if __name__ == "__main__":
    main()
