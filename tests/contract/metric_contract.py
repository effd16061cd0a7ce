"""What every metric must hold to. A new metric joins by being added to the list in ``test_metrics.py``."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

import calls
from verax.metrics import DirectedPredictionChange, GuidedMetric, PredictionChangeResult, SampledMetric, SensitivityN
from verax.metrics.base import all_draws
from verax.metrics.weighted_area import Curve, Reading
from verax.perturbation.block import Order
from verax.perturbation.removed_sets import Area, Rule
from verax.perturbation.sampled import Perturbation
from verax.problem.replacement import Nudge, Toward

ROWS, FEATURES, ATTRIBUTIONS = 9, 12, 3
ARRAYS = ("value", "morf", "lerf", "directed_morf", "directed_lerf", "aupc_morf", "aupc_lerf", "abpc")
ARRAYS += ("standard_error", "beta", "by_size", "error")


@dataclass(frozen=True)
class Case:
    """Arguments of one call. Baselines and classes differ from row to row, so that a mix-up of rows shows."""

    model: nn.Module
    inputs: Tensor
    attributions: Tensor
    baselines: Tensor
    target: Tensor

    def rows(self, index: Any) -> "Case":
        return replace(
            self,
            inputs=self.inputs[index],
            attributions=self.attributions[:, index],
            baselines=self.baselines[index],
            target=self.target[index],
        )

    def to(self, dtype: torch.dtype) -> "Case":
        """The same numbers in another precision."""
        return replace(
            self,
            model=copy.deepcopy(self.model).to(dtype),
            inputs=self.inputs.to(dtype),
            attributions=self.attributions.to(dtype),
            baselines=self.baselines.to(dtype),
        )


def tabular(features: int = FEATURES, dtype: torch.dtype = torch.float64) -> Case:
    """Random rows for a small network; the numbers are those of float32, whatever the dtype."""
    return _random_case((features,), [nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 3)]).to(dtype)


def images() -> Case:
    layers = [nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)]
    return _random_case((3, 4, 4), layers).to(torch.float64)


def _random_case(shape: tuple[int, ...], layers: list[nn.Module]) -> Case:
    generator = torch.Generator().manual_seed(len(shape))
    model = nn.Sequential(*layers)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / parameter[0].numel() ** 0.5
    return Case(
        model=model,
        inputs=torch.randn(ROWS, *shape, generator=generator),
        attributions=torch.randn(ATTRIBUTIONS, ROWS, *shape, generator=generator),
        baselines=torch.randn(ROWS, *shape, generator=generator) / 2,
        target=torch.randint(0, 3, (ROWS,), generator=generator),
    )


def measure(metric: Any, case: Case, attributions: Any = None, **options: Any) -> Any:
    """Run one metric through the public interface."""
    given = case.attributions if attributions is None else attributions
    arguments = {"target": case.target, "baselines": case.baselines} | options
    return calls.evaluate(case.model, case.inputs, given, {"it": metric}, **arguments)["it"]


def arrays(result: Any) -> dict[str, Tensor]:
    """Every array of a result as a tensor, a dict of attributions stacked."""
    found = {name: getattr(result, name) for name in ARRAYS if hasattr(result, name)}
    stacked = {name: list(value.values()) if isinstance(value, dict) else value for name, value in found.items()}
    return {name: torch.as_tensor(np.asarray(value)) for name, value in stacked.items()}


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-12) -> None:
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        message = partial("{}: {}".format, name)
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=tolerance, msg=message)


def assert_identical(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in found.items())


def pick(found: dict[str, Tensor], index: Any) -> dict[str, Tensor]:
    """Choose rows; the first axis is the attribution, the second the row."""
    return {name: value[:, index] for name, value in found.items()}


def check_batch_size_does_not_matter(metric: Any) -> None:
    settings = (torch.float64, 7, 1e-12), (torch.float32, 1, 1e-5)  # correlations are of differences
    for dtype, batch_size, tolerance in settings:
        case = tabular(dtype=dtype)
        assert_close(arrays(measure(metric, case, batch_size=batch_size)), arrays(measure(metric, case)), tolerance)


def check_row_order_does_not_matter(metric: Any) -> None:
    case = tabular()
    shuffled = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    assert_close(arrays(measure(metric, case.rows(shuffled))), pick(arrays(measure(metric, case)), shuffled))


def check_rows_do_not_know_each_other(metric: Any) -> None:
    case = tabular()
    together = arrays(measure(metric, case))
    for some in (slice(2, 5), [8, 0], [4]):
        assert_close(arrays(measure(metric, case.rows(some))), pick(together, some))


def check_rows_of_a_ragged_group_map_do_not_know_each_other(metric: Any) -> None:
    """Inputs with 12, 6 and 4 features; curves of those with fewer features than steps are padded among others."""
    case = tabular()
    sizes = torch.tensor([1, 2, 3]).repeat(3)
    groups = torch.arange(FEATURES) // sizes[:, None]
    metric = replace(metric, sizes=(1, 3)) if isinstance(metric, SensitivityN) else metric
    metric = replace(metric, steps=4) if isinstance(getattr(metric, "steps", None), int) else metric
    together = arrays(measure(metric, case, features=groups))
    for some in ([0, 1, 2], [1, 4], [5], [2]):
        found = arrays(measure(metric, case.rows(some), features=groups[some]))
        wanted = {name: value[..., : found[name].shape[-1]] for name, value in pick(together, some).items()}
        assert_close(found, wanted)


def check_attributions_do_not_know_each_other(metric: Any) -> None:
    case = tabular()
    together = arrays(measure(metric, case))
    for index, one in enumerate(case.attributions):
        alone = arrays(measure(metric, case, one))
        assert_close(alone, {name: value[index] for name, value in together.items()})


def check_same_call_gives_the_same_bits(metric: Any) -> None:
    for dtype in (torch.float64, torch.float32):
        case = tabular(dtype=dtype)
        assert_identical(arrays(measure(metric, case)), arrays(measure(metric, case)))


def check_seed_decides_the_draws(metric: Any) -> None:
    if metric.deterministic:
        assert not hasattr(metric, "seed")
        return
    case = tabular()
    first = measure(metric, case)
    torch.manual_seed(1)
    assert_identical(arrays(measure(metric, case)), arrays(first))
    assert not torch.equal(measure(replace(metric, seed=metric.seed + 1), case).value, first.value)


def check_predicted_class_is_the_target_by_default(metric: Any) -> None:
    case = tabular()
    with torch.no_grad():
        predicted = case.model(case.inputs).argmax(1)
    result = measure(metric, case, target=None)
    assert torch.equal(result.target, predicted)
    assert_identical(arrays(result), arrays(measure(metric, case, target=predicted)))
    assert_identical(arrays(measure(metric, case, target=1)), arrays(measure(metric, case, target=[1] * ROWS)))


def check_numpy_equals_torch(metric: Any) -> None:
    case = tabular()
    wanted = measure(metric, case)
    found = calls.evaluate(
        case.model,
        case.inputs.numpy(),
        case.attributions.numpy(),
        {"it": metric},
        target=case.target.numpy(),
        baselines=case.baselines.numpy(),
    )["it"]
    assert isinstance(found.value, np.ndarray)
    assert isinstance(found.target, np.ndarray)
    assert isinstance(wanted.value, Tensor)
    assert isinstance(wanted.target, Tensor)
    assert_close(arrays(found), arrays(wanted))


def check_forms_of_attributions_agree(metric: Any) -> None:
    """A stack, a dict and one by one."""
    case = tabular()
    names = ("first", "second", "third")
    stack = measure(metric, case)
    by_name = measure(metric, case, dict(zip(names, case.attributions, strict=True)))
    assert tuple(by_name.value) == names
    assert stack.value.shape == (ATTRIBUTIONS, ROWS)
    assert_identical(arrays(by_name), arrays(stack))
    for name, one in zip(names, case.attributions, strict=True):
        alone = measure(metric, case, one)
        assert alone.value.shape == (ROWS,)
        torch.testing.assert_close(alone.value, by_name.value[name], rtol=0, atol=1e-12)


def check_layout_in_memory_does_not_matter(metric: Any) -> None:
    case = tabular()
    turned = replace(
        case,
        inputs=case.inputs.T.contiguous().T,
        attributions=case.attributions.movedim(0, -1).contiguous().movedim(-1, 0),
        baselines=case.baselines.T.contiguous().T,
    )
    assert_close(arrays(measure(metric, turned)), arrays(measure(metric, case)))


def check_dtype_is_kept(metric: Any) -> None:
    exact = arrays(measure(metric, tabular()))
    for dtype in (torch.float64, torch.float32):
        found = measure(metric, tabular(dtype=dtype))
        assert all(value.dtype == dtype for value in arrays(found).values())
        # the same draws and the same order in both precisions
        assert_close({name: value.double() for name, value in arrays(found).items()}, exact, 1e-3)


def check_nothing_is_touched(metric: Any) -> None:
    case = tabular()
    hook_calls: list[int] = []
    model = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Dropout(0.5), case.model).double()
    model.train()
    model[1].eval()
    model[2].requires_grad_(False)
    model[2].register_forward_hook(lambda *_: hook_calls.append(1))
    case = replace(case, model=model)
    before = _state(case)
    measure(metric, case)
    after = _state(case)
    for name, value in before.items():
        assert str(value) == str(after[name]) if not isinstance(value, list) else _equal(value, after[name]), name
    assert hook_calls  # the user's hooks run


def _state(case: Case) -> dict[str, Any]:
    model = case.model
    return {
        "modes": tuple(part.training for part in model.modules()),
        "weights": [value.clone() for value in model.state_dict().values()],
        "gradients": tuple((value.requires_grad, value.grad) for value in model.parameters()),
        "hooks": tuple(
            (*part._forward_hooks, *part._forward_pre_hooks, *part._backward_hooks) for part in model.modules()
        ),
        "arguments": [case.inputs.clone(), case.attributions.clone(), case.baselines.clone(), case.target.clone()],
        "torch's random numbers": [torch.get_rng_state()],
        "NumPy's random numbers": [torch.as_tensor(np.random.get_state()[1].astype(np.int64))],  # noqa: NPY002
        "torch's settings": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
    }


def _equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def check_results_may_be_differentiated_with(metric: Any) -> None:
    """Results are plain tensors: autograd can save them, although the model ran in inference mode."""
    case = tabular()
    result = measure(metric, case, target=None)
    inputs = case.inputs.clone().requires_grad_()
    (case.model(inputs) * result.value[0][:, None]).sum().backward()
    case.model(inputs).gather(1, result.target[:, None]).sum().backward()
    assert inputs.grad is not None


def check_ties_are_deterministic(metric: Any) -> None:
    case = tabular()
    tied = replace(case, attributions=case.attributions.round())
    constant = replace(case, attributions=torch.ones_like(case.attributions))
    order = torch.arange(ROWS - 1, -1, -1)
    for one in (tied, constant):
        wanted = arrays(measure(metric, one))
        assert_identical(arrays(measure(metric, one)), wanted)
        assert_close(arrays(measure(metric, one, batch_size=5)), wanted)
        assert_close(arrays(measure(metric, one.rows(order))), pick(wanted, order))


def check_zero_attributions(metric: Any) -> None:
    case = tabular()
    result = measure(metric, case, torch.zeros_like(case.inputs))
    assert all(torch.isfinite(value).all() for value in arrays(result).values())
    if isinstance(metric, DirectedPredictionChange):
        assert torch.equal(result.value, torch.zeros(ROWS, dtype=torch.float64))


def check_one_row(metric: Any) -> None:
    case = tabular().rows([3])
    result = measure(metric, case)
    assert result.value.shape == (ATTRIBUTIONS, 1)
    assert all(torch.isfinite(value).all() for value in arrays(result).values())


def check_one_feature(metric: Any) -> None:
    if isinstance(metric, SensitivityN):
        metric = replace(metric, sizes=(1,))
    if getattr(metric, "subset", None) is not None:
        metric = replace(metric, subset=1)
    result = measure(metric, tabular(features=1))
    assert result.value.shape == (ATTRIBUTIONS, ROWS)
    assert all(torch.isfinite(value).all() for value in arrays(result).values())
    if hasattr(result, "steps"):  # both curves are the two end points
        assert result.steps == 1
    if isinstance(result, PredictionChangeResult) and metric.experiment.area == "between":
        assert torch.equal(result.value, torch.zeros(ATTRIBUTIONS, ROWS, dtype=torch.float64))


def check_image_attributions_may_lack_channels(metric: Any) -> None:
    """One feature is a pixel, with the sum of its channels; where each channel counts on its own, it gets its share."""
    case = images()
    pixel = case.attributions.sum(2, keepdim=True)
    dot = isinstance(metric, SampledMetric) and all_draws(metric)[0].effect == "dot"
    if isinstance(metric, GuidedMetric):
        dot = metric.experiment.rule != "sum" and metric.experiment.order == "magnitude"
    full = pixel.expand_as(case.attributions) / 3 if dot else case.attributions
    wanted = arrays(measure(metric, case, full))
    assert_close(arrays(measure(metric, case, pixel)), wanted)
    assert_close(arrays(measure(metric, case, pixel[:, :, 0])), wanted)
    assert_close(arrays(measure(metric, case, pixel[1, :, 0])), {name: value[1] for name, value in wanted.items()})


def check_a_map_of_pixels_equals_pixels(metric: Any) -> None:
    case = images()
    numbers = torch.arange(16).reshape(4, 4)
    pixel = case.attributions.sum(2, keepdim=True)
    for attributions in (case.attributions, pixel, pixel[:, :, 0]):
        wanted = arrays(measure(metric, case, attributions))
        for features in (numbers, numbers.expand(ROWS, 4, 4), numbers.expand(3, 4, 4), "pixel"):
            assert_close(arrays(measure(metric, case, attributions, features=features)), wanted)


OTHER_SETTINGS: dict[str, tuple[Any, ...]] = {
    "steps": (3, 5),
    "curve": get_args(Curve),
    "sigma": (0.5,),
    "subset": (None, 1, 5),
    "samples": (33,),
    "normalize": (True, False),
    "seed": (123,),
    "perturbation": get_args(Perturbation),
    "sizes": ((1,), (2, 3)),
    "effect": ("dot",),
    "rule": get_args(Rule),
    "area": get_args(Area),
    "replacement": (Toward(0.5), Nudge(0.25)),
    "epsilon": (0.2,),
    "tolerance": (1e-9,),
    "shares": ((0.3,), (0.1, 0.9)),
}


def check_every_setting_counts(metric: Any) -> None:
    case = tabular()
    value = measure(metric, case).value
    for field in fields(metric):
        if field.name == "sigma" and getattr(metric, "perturbation", "gaussian") == "baseline":
            continue  # a replacement has no width
        if field.name == "rule" and (metric.order == "literal" or metric.experiment.steps >= FEATURES):
            continue  # the literal reading has one, and at one feature per step all are equal
        if field.name == "tolerance" and metric.steps != "adaptive":
            continue  # fixed steps have none
        readings = get_args(Reading) if getattr(metric, "rule", "") == "sum" else get_args(Order)
        choices = OTHER_SETTINGS | {"order": readings}
        others = [choice for choice in choices[field.name] if choice != getattr(metric, field.name)]
        if field.name == "effect":  # noise has one, a replacement two, of which "sum" is the default
            others = ["dot"] if metric.perturbation == "baseline" else []
            if not others:
                continue
        assert others, f"no other value of {field.name} to try"
        for other in others:
            changed = measure(replace(metric, **{field.name: other}), case).value
            # two attributions that both point the wrong way are as bad as none, whatever their effect; and the two
            # features of a step often agree, so that rules do
            share = {"effect": 0.5, "rule": 0.25}.get(field.name, 0.9)
            assert ((changed - value).abs() > 1e-9).float().mean() > share, f"{field.name}={other!r} changes nothing"


CHECKS: tuple[Callable[[Any], None], ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_")
)


def check_metric(metric: Any) -> None:
    """Run every check on one metric."""
    for check in CHECKS:
        check(metric)
