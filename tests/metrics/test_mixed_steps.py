"""DPC in few steps: printed results say how many steps hold features whose predicted changes conflict."""

import re

import pytest
import torch

import calls
from verax.metrics import DirectedPredictionChange

FEATURES, STEPS = 12, 5
GENERATOR = torch.Generator().manual_seed(0)
X, BASELINES = torch.randn(2, 7, FEATURES, generator=GENERATOR)
GIVEN = {name: torch.randn(7, FEATURES, generator=GENERATOR) for name in ("first", "second")}
MODEL = torch.nn.Linear(FEATURES, 2)
SENTENCE = r"([\d,]+) of ([\d,]+) steps remove features whose predicted changes conflict"


def counted(order: str, curves: int) -> tuple[int, int]:
    """Conflicting steps and all steps, feature by feature."""
    conflicts = total = 0
    for attributions in GIVEN.values():
        for row, x, baseline in zip(attributions, X, BASELINES, strict=True):
            key = row.abs() if order == "magnitude" else row
            sequence = sorted(range(FEATURES), key=lambda feature, key=key: -float(key[feature]))
            for path in (sequence, sequence[::-1])[:curves]:
                for step in range(STEPS):
                    removed = path[step * FEATURES // STEPS : (step + 1) * FEATURES // STEPS]
                    if path is not sequence:  # the least relevant are cut from the other end
                        removed = sequence[
                            FEATURES - (step + 1) * FEATURES // STEPS : FEATURES - step * FEATURES // STEPS
                        ]
                    size = row.abs() if order == "signed" else row
                    signs = {bool(size[one] * (x[one] - baseline[one]) > 0) for one in removed}
                    conflicts += len(signs) > 1
                    total += 1
    return conflicts, total


@pytest.mark.parametrize(("area", "curves"), [("between", 2), ("morf", 1)])
@pytest.mark.parametrize("order", ["magnitude", "signed"])
def test_conflicting_steps_are_counted(order: str, area: str, curves: int) -> None:
    metric = DirectedPredictionChange(order=order, steps=STEPS, area=area)
    found = calls.evaluate(MODEL, X, GIVEN, {"dpc": metric}, baselines=BASELINES, target=1)
    numbers = re.search(SENTENCE, found["dpc"].caution)
    assert numbers is not None
    assert tuple(int(one) for one in numbers.groups()) == counted(order, curves)


def test_every_printed_result_says_so(tmp_path) -> None:
    settings = {"steps": STEPS, "baselines": BASELINES, "target": 1}
    comparison = calls.compare(MODEL, X, GIVEN, ["pc", "dpc"], **settings)
    single = calls.directed_prediction_change(MODEL, X, GIVEN, **settings)
    comparison.save(tmp_path / "page.html")
    for shown in (str(comparison), str(comparison.evaluation), comparison._repr_html_(), str(single)):
        assert len(re.findall(SENTENCE, shown)) == 1  # of DPC; PC has no directions
    assert len(re.findall(SENTENCE, (tmp_path / "page.html").read_text())) == 1


@pytest.mark.parametrize(
    "metric",
    [
        DirectedPredictionChange(steps=FEATURES),
        DirectedPredictionChange(steps=STEPS, rule="coherent"),
        DirectedPredictionChange(steps="adaptive"),
        DirectedPredictionChange(steps=FEATURES - 1),  # one step of two features
    ],
    ids=str,
)
def test_steps_that_do_not_mix_directions_get_no_caution(metric: DirectedPredictionChange) -> None:
    found = calls.evaluate(MODEL, X, GIVEN, {"dpc": metric}, baselines=BASELINES, target=1)
    assert found["dpc"].caution == ""
    assert "conflict" not in str(found)


def test_the_advice_is_one_that_the_reading_takes() -> None:
    literal = DirectedPredictionChange(order="literal", steps=STEPS)
    found = calls.evaluate(MODEL, X, GIVEN, {"dpc": literal}, baselines=BASELINES, target=1)
    assert found["dpc"].caution.endswith("; use more steps.")
    assert calls.directed_prediction_change(MODEL, X, GIVEN, steps=STEPS).caution.endswith(
        '; use rule="coherent" or more steps.'
    )


def test_features_of_several_elements_and_inputs_cut_into_parts() -> None:
    groups = torch.arange(FEATURES) // 2  # six features of two elements, two of them in each of three steps
    metric = DirectedPredictionChange("magnitude", steps=3)
    found = calls.evaluate(MODEL, X, GIVEN, [metric], baselines=BASELINES, target=1, features=groups)["dpc"]
    signs = torch.stack([(one.view(7, 6, 2).sum(-1) * (X - BASELINES).view(7, 6, 2).sum(-1)).sign() for one in
                         GIVEN.values()])  # fmt: skip
    order = torch.stack([one.view(7, 6, 2).sum(-1).abs().argsort(-1, descending=True) for one in GIVEN.values()])
    pairs = signs.take_along_dim(order, -1).view(2, 7, 3, 2)
    assert found.guided.mixed.tolist() == (2 * (pairs[..., 0] != pairs[..., 1]).sum(-1)).tolist()  # both curves
