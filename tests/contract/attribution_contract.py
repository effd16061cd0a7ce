"""What every attribution method must hold to. One joins by being added to the list in ``test_attributions.py``."""

import contextlib
import copy
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints
from unittest import mock

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import verax
from attribution.networks import convnet, mlp, rows
from verax.attribution import Attribution, Attributions, families, stream

ROWS, FEATURES, CHANNELS, SIZE, CLASSES = 7, 6, 3, 8, 3
BACKGROUND = 12
Parity = Literal["odd", "even", "neither"]


@dataclass(frozen=True)
class Case:
    """A configuration with something to explain.

    Attributes:
        configuration: The method with its settings.
        model: A network with one logit per class.
        binary: The same kind of network with one logit.
        inputs: Rows to explain.
        target: Their classes; they differ, so that a mix-up of rows shows.
        background: Rows of the training data, for methods that need them.
        labels: Their classes, for methods that need them.
        others: For a setting, other values to try; by default they are derived from its type and value.
        parity: How class 0 relates to class 1 for one logit: minus the same, the same, or neither.
        tolerance: How far results may be apart, relative to the largest, by precision, where only rounding differs.
    """

    configuration: Attribution
    model: nn.Module
    binary: nn.Module
    inputs: Tensor
    target: Tensor
    background: Tensor | None = None
    labels: Tensor | None = None
    others: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    parity: Parity = "odd"
    tolerance: dict[torch.dtype, float] = field(default_factory=lambda: {torch.float64: 1e-10, torch.float32: 1e-4})

    def __repr__(self) -> str:
        return f"{self.configuration.canonical}-{'image' if self.inputs.ndim == 4 else 'tabular'}"

    def rows(self, index: Any) -> "Case":
        return replace(self, inputs=self.inputs[index], target=self.target[index])

    def to(self, dtype: torch.dtype) -> "Case":
        """The same numbers in another precision."""
        return replace(
            self,
            model=copy.deepcopy(self.model).to(dtype),
            binary=copy.deepcopy(self.binary).to(dtype),
            inputs=self.inputs.to(dtype),
            background=None if self.background is None else self.background.to(dtype),
        )

    def variants(self) -> list[Attribution]:
        """The configuration with one setting changed, for every setting and every other value."""
        return [
            replace(self.configuration, **{one.name: other})  # type: ignore[type-var]
            for one in fields(self.configuration)  # type: ignore[arg-type]
            for other in self._others(one.name)
        ]

    def _others(self, name: str) -> tuple[Any, ...]:
        value = getattr(self.configuration, name)
        if name in self.others:
            return self.others[name]
        if isinstance(value, bool):
            return (not value,)
        if isinstance(value, int | float):
            return (value + 1,)
        hint = get_type_hints(type(self.configuration))[name]
        if get_origin(hint) is Literal:
            return tuple(choice for choice in get_args(hint) if choice != value)
        raise TypeError(f"no other value of {name} to try; say one in Case.others.")


def tabular(configuration: Attribution, background: bool = False, labels: bool = False, **settings: Any) -> Case:
    """Explain the perceptron, in float64."""
    model, binary = mlp(features=FEATURES, outputs=CLASSES), mlp(features=FEATURES, outputs=1)
    return _case(configuration, model, binary, (FEATURES,), background, labels, settings)


def image(configuration: Attribution, background: bool = False, labels: bool = False, **settings: Any) -> Case:
    """Explain the convolutional network, in float64."""
    model, binary = (convnet(channels=CHANNELS, size=SIZE, outputs=outputs) for outputs in (CLASSES, 1))
    return _case(configuration, model, binary, (CHANNELS, SIZE, SIZE), background, labels, settings)


def _case(
    configuration: Attribution,
    model: nn.Module,
    binary: nn.Module,
    shape: tuple[int, ...],
    background: bool,
    labels: bool,
    settings: dict[str, Any],
) -> Case:
    case = Case(
        configuration,
        model=model,
        binary=binary,
        inputs=rows(ROWS, *shape),
        target=torch.arange(ROWS) % CLASSES,
        background=rows(BACKGROUND, *shape, seed=2) if background or labels else None,
        labels=torch.arange(BACKGROUND) % 2 if labels else None,
    )
    return replace(case, **settings).to(torch.float64)


def problem(case: Case, **settings: Any) -> verax.Problem:
    """What a case explains; settings replace its arguments."""
    arguments: dict[str, Any] = {
        "model": case.model,
        "inputs": case.inputs,
        "target": case.target,
        "background": case.background,
        "background_labels": case.labels,
    }
    return verax.Problem(**(arguments | settings))


def explain(case: Case, configurations: list[Attribution] | None = None, **settings: Any) -> Attributions:
    """Compute configurations of a case; settings replace its arguments."""
    return verax.explain(problem(case, **settings), configurations or [case.configuration])


def explain_one(case: Case, **settings: Any) -> Any:
    """The case's own configuration."""
    return explain(case, **settings)[case.configuration.canonical]


def assert_close(case: Case, found: Tensor, wanted: Tensor) -> None:
    """Equal but for rounding."""
    scale = float(wanted.abs().max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=case.tolerance[case.inputs.dtype] * max(scale, 1e-12))


def check_it_says_what_it_is(case: Case) -> None:
    one = case.configuration
    assert isinstance(one.local, bool)
    assert isinstance(one.needs_gradients, bool)
    assert isinstance(one.random, bool)
    assert one.random == hasattr(one, "seed")
    assert ("image" if case.inputs.ndim == 4 else "tabular") in one.modalities
    for setting in fields(one):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(one, setting.name, getattr(one, setting.name))


def check_shape_and_numbers(case: Case) -> None:
    found = explain_one(case)
    assert found.shape == case.inputs.shape
    assert torch.isfinite(found).all()
    assert found.abs().max() > 0


def check_call_equals_attribute(case: Case) -> None:
    assert torch.equal(case.configuration(problem(case)), explain_one(case))


def check_batch_size_does_not_matter(case: Case) -> None:
    for dtype, batch_size in zip(case.tolerance, (3, 1), strict=True):
        one = case.to(dtype)
        assert_close(one, explain_one(one, batch_size=batch_size), explain_one(one))


def check_blocks_do_not_matter(case: Case) -> None:
    """With hardly any working memory the inputs come in many pieces, in order, with the same result."""
    groups = families([case.configuration])
    with hardly_any_memory():
        found = list(stream(groups, problem(case, batch_size=2)))
    places = [place for _, piece in found for place in range(piece.rows.start, piece.rows.stop)]
    assert places == list(range(ROWS))
    together = torch.cat([piece.values[0] for _, piece in found])
    assert_close(case, together.to(case.inputs), explain_one(case))


@contextlib.contextmanager
def hardly_any_memory() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("verax.") and hasattr(module, "block_bytes"):
                stack.enter_context(mock.patch.object(module, "block_bytes", return_value=1))
        yield


def check_row_order_does_not_matter(case: Case) -> None:
    shuffled = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    assert_close(case, explain_one(case.rows(shuffled)), explain_one(case)[shuffled])


def check_rows_do_not_know_each_other(case: Case) -> None:
    together = explain_one(case)
    for some in (slice(2, 5), [6, 0], [4]):
        assert_close(case, explain_one(case.rows(some)), together[some])


def check_same_call_gives_the_same_bits(case: Case) -> None:
    for dtype in case.tolerance:
        one = case.to(dtype)
        assert torch.equal(explain_one(one), explain_one(one))


def check_seed_decides_the_draws(case: Case) -> None:
    if not case.configuration.random:
        return
    first = explain_one(case)
    for generator in (torch.manual_seed, np.random.seed, random.seed):
        generator(1)
    assert torch.equal(explain_one(case), first)
    other = replace(case.configuration, seed=case.configuration.seed + 1)  # type: ignore[attr-defined, type-var]
    assert not torch.equal(explain_one(replace(case, configuration=other)), first)


def check_arrays_come_back_as_they_went_in(case: Case) -> None:
    for dtype in case.tolerance:
        one = case.to(dtype)
        wanted = explain_one(one)
        assert isinstance(wanted, Tensor)
        assert wanted.dtype == dtype
        assert wanted.device == one.inputs.device
        arrays = {"background": one.background, "background_labels": one.labels}
        given = {name: None if value is None else value.numpy() for name, value in arrays.items()}
        found = explain_one(one, inputs=one.inputs.numpy(), target=one.target.numpy(), **given)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, wanted.numpy())
        assert found.dtype == wanted.numpy().dtype


def check_devices_agree(case: Case) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    wanted = explain_one(case)
    visit = explain_one(case, device="cuda")
    assert visit.device == case.inputs.device
    assert all(value.device == case.inputs.device for value in case.model.parameters())
    there = explain_one(case, model=copy.deepcopy(case.model).cuda(), inputs=case.inputs.cuda())
    assert there.device.type == "cuda"
    for found in (visit, there.cpu()):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-8 * float(wanted.abs().max()))


def check_precision_of_inputs_is_kept_whatever_the_model_has(case: Case) -> None:
    single = case.to(torch.float32)
    found = explain_one(single, model=case.model)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), explain_one(case), rtol=0, atol=1e-3 * float(found.abs().max()))


def check_layout_in_memory_does_not_matter(case: Case) -> None:
    turned = case.inputs.movedim(0, -1).contiguous().movedim(-1, 0)
    assert not turned.is_contiguous()
    assert_close(case, explain_one(case, inputs=turned), explain_one(case))


def check_results_are_plain_tensors(case: Case) -> None:
    """Autograd can go on with them."""
    found = explain_one(case)
    assert not found.requires_grad
    weight = torch.ones_like(found, requires_grad=True)
    (weight * found).sum().backward()
    assert torch.equal(weight.grad, found)


def check_nothing_is_touched(case: Case) -> None:
    one = lived_in(case)
    before = state(one)
    explain_one(one)
    assert_same_state(before, state(one))
    assert one.model.calls > 0  # type: ignore[operator]  # the user's hooks run


def check_nothing_is_touched_by_a_failure(case: Case) -> None:
    """The model fails at its second batch, or at its last one."""
    one = lived_in(case)
    explain_one(one, batch_size=2)
    for place in (2, one.model.calls):
        one.model.calls, one.model.fails_at = 0, place  # type: ignore[assignment]
        before = state(one)
        with pytest.raises(OSError, match="the model failed"):
            explain_one(one, batch_size=2)
        assert one.model.calls == place
        assert_same_state(before, state(one))
        one.model.fails_at = None  # type: ignore[assignment]
        assert_close(case, explain_one(one), explain_one(case))


class LivedIn(nn.Module):
    """A model as users have them: some parts in training mode, some frozen, old gradients, hooks. It may fail."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = copy.deepcopy(model)
        self.calls = 0
        self.fails_at: int | None = None
        self.train()
        first, *_, last = (part for part in self.modules() if list(part.parameters(recurse=False)))
        first.eval()
        first.requires_grad_(False)
        last.weight.grad = torch.ones_like(last.weight)
        last.register_forward_hook(self._count)
        first.register_forward_pre_hook(lambda part, given: None)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def _count(self, *_: Any) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError("the model failed")


def lived_in(case: Case) -> Case:
    background = None if case.background is None else case.background.clone().requires_grad_()
    inputs = case.inputs.clone().requires_grad_()
    return replace(case, model=LivedIn(case.model), inputs=inputs, background=background)


def state(case: Case) -> dict[str, Any]:
    """Everything that a call could change by mistake."""
    given = [one for one in (case.inputs, case.target, case.background, case.labels) if one is not None]
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "modes": [part.training for part in case.model.modules()],
        "weights and buffers": [value.clone() for value in case.model.state_dict().values()],
        "parameters": [id(value) for value in case.model.parameters()],
        "requires_grad": [value.requires_grad for value in (*case.model.parameters(), *given)],
        "gradients": [
            None if value.grad is None else value.grad.clone() for value in (*case.model.parameters(), *given)
        ],
        "hooks": [list(getattr(part, name)) for part in case.model.modules() for name in hooks],
        "attributes": [sorted(vars(part)) for part in case.model.modules()],
        "arguments": [value.detach().clone() for value in given],
        "torch's random numbers": torch.get_rng_state(),
        "NumPy's random numbers": [str(value) for value in np.random.get_state()],  # noqa: NPY002
        "torch's settings": [torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()],
        "torch's function modes": torch.overrides._len_torch_function_stack(),
        "threads": torch.get_num_threads(),
    }


def assert_same_state(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        assert _same(value, after[name]), f"{name} changed"


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    return bool(first == second)


def pythons_random_numbers_stay(case: Case) -> bool:
    """Not among the checks: the type checker of the tests draws from them, so this one runs in a process of its own."""
    before = random.getstate()
    explain_one(case)
    return random.getstate() == before


def check_target(case: Case) -> None:
    predicted = copy.deepcopy(case.model).eval()(case.inputs).argmax(1)
    assert_close(case, explain_one(case, target=None), explain_one(case, target=predicted))
    same = torch.full_like(case.target, 2)
    assert torch.equal(explain_one(case, target=2), explain_one(case, target=same))
    for wrong in (CLASSES, -1, case.target[1:], "cat", 0.5):
        with pytest.raises((TypeError, ValueError), match=r"^target: "):
            explain_one(case, target=wrong)


def check_one_logit(case: Case) -> None:
    binary = verax.Scorer(case.binary, returns="logits")
    zero, one = (explain_one(case, model=binary, target=target) for target in (0, 1))
    if case.parity != "neither":
        assert_close(case, zero, -one if case.parity == "odd" else one)
    with pytest.raises(ValueError, match="the model has 2 classes"):
        explain_one(case, model=binary, target=2)


def check_canonical_form(case: Case) -> None:
    """It names the class and every setting, and differs for every changed setting."""
    one = case.configuration
    name = type(one).__name__
    assert re.fullmatch(rf"{name}\(.*\)", one.canonical)
    assert all(f"{setting.name}=" in one.canonical for setting in fields(one))  # type: ignore[arg-type]
    assert one.canonical == repr(one)  # what one would type to get it
    variants = case.variants()
    assert len({one.canonical, *(other.canonical for other in variants)}) == len(variants) + 1
    assert len({one, *variants}) == len(variants) + 1


def check_every_setting_counts(case: Case) -> None:
    configurations = [case.configuration, *case.variants()]
    found = explain(case, configurations)
    for other in configurations[1:]:
        assert not torch.equal(found[other.canonical], found[case.configuration.canonical]), f"{other} changes nothing"


def check_a_family_equals_its_members(case: Case) -> None:
    members = [*case.variants(), case.configuration]
    together = explain(case, [*members, case.configuration])
    assert list(together) == [one.canonical for one in members]
    alone = [explain(case, [one]) for one in members]
    for one, found in zip(members, alone, strict=True):
        wanted = found[one.canonical]
        difference = (together[one.canonical] - wanted).abs().max()
        assert difference <= 1e-6 * wanted.abs().max(), one
    assert together.rows <= sum(found.rows for found in alone)
    assert together.rows_backward <= sum(found.rows_backward for found in alone)


def check_cost_is_counted(case: Case) -> None:
    scorer = verax.Scorer(case.model)
    found = explain(case, model=scorer)
    assert found.rows == scorer.rows >= ROWS
    assert found.rows_backward == scorer.rows_backward
    assert (found.rows_backward > 0) == case.configuration.needs_gradients
    assert found.seconds > 0


def check_models_without_gradients(case: Case) -> None:
    """A callable, a scikit-learn classifier, a module that cuts the graph: refused by name, or explained."""
    scorer = verax.Scorer(lambda x: case.model(x).detach(), returns="logits")
    models: list[Any] = [scorer, *([_sklearn(case)] if case.inputs.ndim == 2 else [])]
    for model in models:
        if case.configuration.needs_gradients:
            with pytest.raises(TypeError, match=r"model: it is not a torch module.*LIME"):
                explain_one(case, model=model)
        else:
            assert explain_one(case, model=model, target=1).shape == case.inputs.shape
    if case.configuration.needs_gradients:
        with pytest.raises(TypeError, match=r"model: the model's output does not depend.*LIME"):
            explain_one(case, model=Detached(case.model))


class Detached(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).detach()


def _sklearn(case: Case) -> LogisticRegression:
    labels = np.arange(len(case.inputs)) % 2
    return LogisticRegression().fit(case.inputs.numpy(), labels)


def check_background(case: Case) -> None:
    if case.background is not None and getattr(case.configuration, "baseline", None) == "mean":
        alone = explain_one(case, background=None, background_labels=None)  # begins at the call's baselines
        assert torch.isfinite(alone).all()
    elif case.background is not None:
        with pytest.raises(ValueError, match=rf"background: {type(case.configuration).__name__}\b.* needs rows"):
            explain_one(case, background=None, background_labels=None)
    given = rows(BACKGROUND, *case.inputs.shape[1:], dtype=case.inputs.dtype)
    bad = given.clone()
    bad[3] = torch.nan
    for wrong in (given[..., :-1], given[0], given[:0], bad):
        with pytest.raises(ValueError, match=r"^background: "):
            explain_one(case, background=wrong)
    with pytest.raises(TypeError, match=r"^background: "):
        explain_one(case, background=given.to(torch.int64))
    if case.labels is not None:
        for labels in (case.labels[1:], case.labels.double()):
            with pytest.raises(ValueError, match=r"^background_labels: "):
                explain_one(case, background_labels=labels)


def check_wrong_inputs(case: Case) -> None:
    bad = case.inputs.clone()
    bad[2] = torch.inf
    for wrong in (bad, case.inputs[:0], case.inputs.to(torch.int64), case.inputs[0, ..., 0].reshape(-1)):
        with pytest.raises((TypeError, ValueError), match=r"^inputs: "):
            explain_one(case, inputs=wrong)
    for size in (0, -1):
        with pytest.raises(ValueError, match=r"^batch_size: "):
            explain_one(case, batch_size=size)


CHECKS: tuple[Callable[[Case], None], ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_")
)


def check_attribution(case: Case) -> None:
    """Run every check on one case."""
    for check in CHECKS:
        check(case)
