"""From a study's report back to one's own frame: the printed settings, pasted, give the printed score."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression

import verax
from verax.attribution import LimeTabular, Random, SmoothGrad
from verax.evaluation.comparison import Comparison

DRAWS = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"age": DRAWS.normal(50, 12, 200), "income": DRAWS.normal(3e4, 9e3, 200), "rate": DRAWS.normal(0.04, 0.01, 200)}
)
LOGIT = (FRAME["age"] - 50) / 12 - (FRAME["income"] - 3e4) / 9e3 + 0.5 * (FRAME["rate"] - 0.04) / 0.01
LIME = LimeTabular(alpha=0.01, kernel_width=0.75, sigma=0.5, samples=256)


def printed(page: str) -> dict[str, str]:
    """The code in the report, by the metric that decided."""
    found = re.findall(r'decided by ([^<]*)</small>.*?<pre class="code">(.*?)</pre>', page, re.DOTALL)
    return {metric: html.unescape(code) for metric, code in found}


def pasted(code: str, names: dict[str, Any]) -> Comparison:
    """Run what the report prints, and return what its last line shows."""
    shown: list[Any] = []
    exec(code, {**names, "print": shown.append})  # noqa: S102  # what a reader of the report would do
    (found,) = shown
    assert isinstance(found, Comparison)
    return found


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    scale = torch.tensor([1 / 12, 1 / 9e3, 100.0])
    module = torch.nn.Linear(3, 2).double()
    module.weight.data = torch.tensor([[-1.0, 1.0, -0.5], [1.0, -1.0, 0.5]]).double() * scale
    module.bias.data = -module.weight.data @ torch.tensor([50, 3e4, 0.04]).double()
    return module


@pytest.mark.parametrize(
    ("made", "method", "labels", "trees"),
    [
        (lambda: RandomForestClassifier(20, max_depth=3, random_state=0).fit(FRAME, LOGIT > 0), LIME, LOGIT > 0, True),
        (lambda: LinearRegression().fit(FRAME[["rate", "age", "income"]], LOGIT), LIME, LOGIT, False),
        (network, SmoothGrad(0.25, samples=8), LOGIT > 0, False),
    ],
    ids=["forest", "regression with columns in another order", "network"],
)
@pytest.mark.filterwarnings("ignore:PC and DPC")
def test_the_report_can_be_pasted(tmp_path: Path, made: Any, method: Any, labels: Any, trees: bool) -> None:
    model = made()
    found = verax.run_study(
        models={"own": model}, data=(FRAME, labels), attributions=[method, Random()], out=tmp_path, limit=12, examples=0
    )
    codes = printed(found.report.read_text())
    assert set(codes) == {"Effect correlation (removal)"} | (set() if trees else {"Effect correlation"})
    material = found.study.models["own"].material
    rows = {"x": FRAME.iloc[material.rows], "train": FRAME.iloc[material.dataset.split.train]}
    frame = found.to_frame().filter(configuration=method.canonical)
    for metric, code in codes.items():
        column = "effect_correlation_baseline" if "removal" in metric else "effect_correlation"
        again = pasted(code, {"model": model, **rows}).to_frame()
        assert again.filter(attribution=again["attribution"][0])["effect_correlation"].to_list() == pytest.approx(
            frame[column].to_list(), abs=1e-6
        )  # stored in single precision
