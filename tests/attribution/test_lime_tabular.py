"""Tabular LIME against scikit-learn's Ridge on the neighbours that the model was asked about."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn

import calls
import verax
from attribution.networks import mlp, rows
from calls import attribute
from verax.attribution.lime_tabular import LimeTabular

ALPHAS = (0.000055, 0.0001, 0.00055, 0.001, 0.0055, 0.01, 0.055, 0.1, 0.55)
WIDTHS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25)
SIGMAS = (0.1, 0.5, 1.0)
SIZES = (64, 256, 1024)
GRID = [LimeTabular(*settings) for settings in product(ALPHAS, WIDTHS, SIGMAS, SIZES)]
SMALL = [LimeTabular(*settings) for settings in product((1e-4, 0.1), (0.5, 1.0), (0.1, 1.0), (16, 50))]


class Recorder(nn.Module):
    """A model that keeps the rows it was asked about, after the first call, which is for the inputs themselves."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: list[Tensor] = []

    def forward(self, batch: Tensor) -> Tensor:
        self.seen.append(batch.clone())
        return self.model(batch)

    def neighbours(self, inputs: int, sizes: list[int]) -> list[Tensor]:
        """Rows by sigma: blocks hold all inputs here, so the calls go through one sigma after the other."""
        asked = torch.cat(self.seen)[inputs:]
        parts = asked.split([inputs * size for size in sizes])
        return [part.reshape(inputs, size, -1) for part, size in zip(parts, sizes, strict=True)]


class Times(nn.Module):
    """Columns times one number each."""

    def __init__(self, unit: Tensor) -> None:
        super().__init__()
        self.unit = unit

    def forward(self, batch: Tensor) -> Tensor:
        return batch * self.unit


def double_mlp(features: int = 20, outputs: int = 2) -> nn.Module:
    return mlp(features=features, outputs=outputs).double().eval()


def inputs(count: int, features: int = 20, seed: int = 1) -> Tensor:
    return rows(count, features, seed=seed, dtype=torch.float64)


def sklearn_fit(x: Tensor, near: Tensor, logits: Tensor, one: LimeTabular) -> Any:
    """A plain fit of one input's surrogate: the unperturbed row first, then its neighbours."""
    design = torch.cat((torch.zeros_like(x)[None], near[: one.samples] - x)).numpy()
    width = one.kernel_width * (np.sqrt(len(x)) if one.scale_kernel else 1)
    weights = np.exp(-(np.linalg.norm(design, axis=1) ** 2) / (2 * width**2))
    return Ridge(alpha=one.alpha).fit(design, logits[: one.samples + 1].numpy(), sample_weight=weights).coef_


def by_sklearn(model: nn.Module, x: Tensor, target: Tensor, near: Tensor, one: LimeTabular) -> Tensor:
    fits = []
    for row, input_row in enumerate(x):
        with torch.no_grad():
            logits = model(torch.cat((input_row[None], near[row])))[:, target[row]]
        fits.append(sklearn_fit(input_row, near[row], logits, one))
    return torch.from_numpy(np.stack(fits))


def as_stack(found: Any, members: list[LimeTabular]) -> Tensor:
    return torch.stack([found[one.canonical] for one in members])


def test_the_whole_grid_equals_scikit_learn() -> None:
    model, x = Recorder(double_mlp()), inputs(2)
    found = attribute(GRID, model, x)
    target = model.model(x).argmax(1)
    near = dict(zip(SIGMAS, model.neighbours(2, [1024] * 3), strict=True))
    for one in GRID:
        wanted = by_sklearn(model.model, x, target, near[one.sigma], one)
        torch.testing.assert_close(found[one.canonical], wanted, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("samples", [1, 2, 40])
def test_few_features_and_few_samples_equal_scikit_learn(features: int, samples: int) -> None:
    model, x = Recorder(double_mlp(features)), inputs(1, features)
    one = LimeTabular(alpha=0.001, samples=samples)
    found = one(calls.problem(model, x, target=1))
    (near,) = model.neighbours(1, [samples])
    wanted = by_sklearn(model.model, x, torch.tensor([1]), near, one)
    torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-8)


def test_scaled_kernel_is_wider_by_the_root_of_the_features() -> None:
    model, x = Recorder(double_mlp()), inputs(3)
    scaled = LimeTabular(kernel_width=0.75, sigma=1.0, samples=100, scale_kernel=True)
    found = scaled(calls.problem(model, x, target=0))
    (near,) = model.neighbours(3, [100])
    wanted = by_sklearn(model.model, x, torch.zeros(3, dtype=torch.int64), near, scaled)
    torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-8)
    absolute = replace(scaled, kernel_width=0.75 * 20**0.5, scale_kernel=False)
    torch.testing.assert_close(found, absolute(calls.problem(model, x, target=0)), atol=1e-12, rtol=1e-12)
    assert not torch.allclose(found, replace(scaled, scale_kernel=False)(calls.problem(model, x, target=0)))


def test_neighbours_are_normal_and_shared() -> None:
    """Deviations are sigma times the same standard normals, and small samples begin large ones."""
    model, x = Recorder(double_mlp()), inputs(30)
    attribute([LimeTabular(sigma=0.1, samples=1000), LimeTabular(sigma=2.0, samples=300)], model, x)
    near, far = model.neighbours(30, [1000, 300])
    normal = (near - x[:, None]) / 0.1
    torch.testing.assert_close(normal[:, :300], (far - x[:, None]) / 2.0, atol=1e-12, rtol=1e-12)
    assert abs(float(normal.mean())) < 0.01
    assert abs(float(normal.std()) - 1) < 0.01
    between = torch.corrcoef(normal.transpose(0, 1).flatten(1)[:50])
    assert float((between - torch.eye(50)).abs().max()) < 0.2


def test_rows_are_counted_exactly() -> None:
    model, x = mlp(features=20, outputs=2), rows(3, 20)
    scorer = verax.Scorer(model)
    found = attribute(GRID, scorer, x)
    assert len(found) == 729
    assert found.rows == scorer.rows == 3 * (3 * 1024 + 1)
    assert found.rows_backward == 0


def test_each_sigma_asks_for_its_own_largest_sample() -> None:
    members = [LimeTabular(sigma=0.1, samples=20), LimeTabular(sigma=1.0, samples=50), LimeTabular(0.1, samples=30)]
    assert attribute(members, mlp(), rows(4, 6)).rows == 4 * (20 + 50 + 30 + 1)
    members = [*members, LimeTabular(sigma=0.1, samples=64), LimeTabular(sigma=1.0, scale_kernel=True, samples=7)]
    assert attribute(members, mlp(), rows(4, 6)).rows == 4 * (64 + 50 + 30 + 1)


def test_another_seed_is_another_family() -> None:
    members = [LimeTabular(samples=20), LimeTabular(samples=20, seed=1)]
    found = attribute(members, mlp(), rows(4, 6))
    assert found.rows == 4 * (20 + 20 + 1)
    assert not torch.allclose(*as_stack(found, members))


def test_a_family_equals_its_members_alone() -> None:
    model, x = double_mlp(6), inputs(5, 6)
    uneven = [*SMALL[::3], LimeTabular(0.02, 0.7, 0.3, 33), LimeTabular(0.0, 2.0, 0.3, 40, scale_kernel=True)]
    found = attribute(uneven, model, x)
    for one in uneven:
        torch.testing.assert_close(found[one.canonical], one(calls.problem(model, x)), atol=1e-10, rtol=1e-10)


def test_members_come_in_the_order_given() -> None:
    model, x = double_mlp(6), inputs(5, 6)
    forwards, backwards = attribute(SMALL, model, x), attribute(SMALL[::-1], model, x)
    assert list(forwards) == [one.canonical for one in SMALL]
    assert list(backwards) == list(forwards)[::-1]
    assert all(torch.equal(forwards[name], backwards[name]) for name in forwards)


def test_small_samples_are_prefixes() -> None:
    """A model with another opinion beyond the first 64 neighbours changes nothing for 64 samples."""
    x, plain = inputs(1, 6), double_mlp(6)
    calls = 0

    def moody(batch: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return plain(batch) + (0.0 if calls <= 2 else 5.0 * torch.sin(9 * batch.sum(1, keepdim=True)))

    members = [LimeTabular(samples=size) for size in SIZES]
    scorer = verax.Scorer(moody, returns="logits")
    changed = attribute(members, scorer, x, target=0, batch_size=64)
    same = attribute(members, plain, x, target=0, batch_size=64)
    torch.testing.assert_close(changed[members[0].canonical], same[members[0].canonical], atol=1e-12, rtol=1e-12)
    assert not torch.allclose(changed[members[1].canonical], same[members[1].canonical], atol=1e-3)


def test_batch_size_and_order_of_rows_do_not_matter() -> None:
    model, x = double_mlp(6), inputs(7, 6)
    wanted = as_stack(attribute(SMALL, model, x), SMALL)
    for size in (1, 13):
        found = as_stack(attribute(SMALL, model, x, batch_size=size), SMALL)
        torch.testing.assert_close(found, wanted, atol=1e-10, rtol=1e-10)
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])
    found = as_stack(attribute(SMALL, model, x[order]), SMALL)
    torch.testing.assert_close(found, wanted[:, order], atol=1e-10, rtol=1e-10)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = double_mlp(6), inputs(7, 6)
    wanted = as_stack(attribute(SMALL, model, x), SMALL)
    for budget in (1, 100_000):
        monkeypatch.setattr("verax.attribution.lime_tabular.block_bytes", lambda _, budget=budget: budget)
        result = attribute(SMALL, model, x)
        torch.testing.assert_close(as_stack(result, SMALL), wanted, atol=1e-10, rtol=1e-10)
        assert result.rows == 7 * 101


def test_seeds_repeat_and_differ() -> None:
    model, x = mlp(), rows(4, 6)
    one = LimeTabular(samples=64)
    assert torch.equal(one(calls.problem(model, x)), one(calls.problem(model, x)))
    assert not torch.allclose(one(calls.problem(model, x)), replace(one, seed=7)(calls.problem(model, x)))


def test_a_constant_model_gets_zeros() -> None:
    scorer = verax.Scorer(lambda batch: torch.full((len(batch), 2), 0.5), returns="probabilities")
    found = as_stack(attribute(SMALL, scorer, rows(3, 6)), SMALL)
    assert torch.equal(found, torch.zeros_like(found))


def test_neighbours_without_weight_give_next_to_nothing() -> None:
    found = LimeTabular(alpha=5.5e-5, kernel_width=0.01, sigma=5.0)(calls.problem(double_mlp(), inputs(3)))
    assert found.isfinite().all()
    assert float(found.abs().max()) < 1e-30


def test_a_linear_model_gets_its_weights() -> None:
    model, x = nn.Linear(5, 3).double(), inputs(4, 5)
    found = LimeTabular(alpha=0.0, kernel_width=2.0)(calls.problem(model, x, target=2))
    torch.testing.assert_close(found, model.weight[2].detach().expand(4, 5), atol=1e-10, rtol=1e-10)
    shrunk = LimeTabular(alpha=50.0, kernel_width=2.0)(calls.problem(model, x, target=2))
    assert bool((shrunk.norm(dim=1) < found.norm(dim=1)).all())


def test_the_explained_class_decides() -> None:
    network, x = mlp(outputs=1).double(), inputs(4, 6)
    model = verax.Scorer(network, returns="logits")
    one = LimeTabular(samples=100)
    torch.testing.assert_close(
        one(calls.problem(model, x, target=0)), -one(calls.problem(model, x, target=1)), atol=1e-12, rtol=1e-12
    )
    predicted = (network.eval()(x)[:, 0] > 0).long()
    torch.testing.assert_close(
        one(calls.problem(model, x)), one(calls.problem(model, x, target=predicted)), atol=0, rtol=0
    )


def test_inputs_with_several_axes_keep_their_shape() -> None:
    inner, flat = double_mlp(6), inputs(4, 6)
    deep = nn.Sequential(nn.Flatten(), inner)
    one = LimeTabular(samples=50, scale_kernel=True)
    found = one(calls.problem(deep, flat.reshape(4, 2, 3)))
    assert found.shape == (4, 2, 3)
    torch.testing.assert_close(found.flatten(1), one(calls.problem(inner, flat)), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_precision_of_the_inputs_suffices(dtype: torch.dtype) -> None:
    """The model is in single precision either way; its rounding stays small against the neighbourhood."""
    model, x = mlp(), rows(4, 6).half().to(dtype)
    one = LimeTabular(samples=200, kernel_width=2.0)
    found = one(calls.problem(model, x))
    assert found.dtype == torch.float32  # half precision could not hold it
    torch.testing.assert_close(found.double(), one(calls.problem(mlp().double(), x.double())), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(20, random_state=0)])
def test_scikit_learn_classifiers(estimator: Any) -> None:
    """NumPy in and out; the logit is the log-odds of the classifier's probability."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 5))
    labels = (data @ np.array([1.0, -2.0, 0.5, 0.0, 0.0]) + rng.normal(size=300) > 0).astype(int)
    estimator.fit(data, labels)
    clipped = verax.Scorer(
        lambda batch: np.clip(estimator.predict_proba(batch), 0.01, 0.99), returns="probabilities", takes="numpy"
    )
    found = LimeTabular(alpha=0.0, kernel_width=2.0, samples=256)(calls.problem(clipped, data[:3], target=1))
    assert isinstance(found, np.ndarray)
    assert found.shape == (3, 5)
    assert found.dtype == np.float64
    assert (found[:, 0] > 0).all()
    assert (found[:, 1] < 0).all()
    if isinstance(estimator, LogisticRegression):
        direct = LimeTabular(alpha=0.0, kernel_width=2.0)(calls.problem(estimator, data[:3], target=1))
        np.testing.assert_allclose(direct, np.repeat(estimator.coef_, 3, axis=0), rtol=1e-8, atol=1e-8)


def test_a_plain_callable_gives_log_odds() -> None:
    weight = np.array([0.5, -1.0, 0.2])
    scorer = verax.Scorer(lambda batch: 1 / (1 + np.exp(-batch @ weight)), returns="probabilities", takes="numpy")
    x = inputs(4, 3).numpy()
    found = LimeTabular(alpha=0.0)(calls.problem(scorer, x, target=1))
    np.testing.assert_allclose(found, np.tile(weight, (4, 1)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alpha", -0.1),
        ("alpha", float("nan")),
        ("alpha", True),
        ("kernel_width", 0.0),
        ("kernel_width", -1.0),
        ("kernel_width", float("inf")),
        ("sigma", 0.0),
        ("sigma", -0.5),
        ("samples", 0),
        ("samples", 2.5),
        ("seed", 0.5),
        ("scale_kernel", 1),
    ],
)
def test_wrong_settings_are_named(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{setting}: expected .* got {value!r}"):
        settled(**{setting: value})


def settled(**settings: Any) -> LimeTabular:
    """Check settings as a user's are, past the types of arguments, which are checked in these tests only."""
    one = LimeTabular()
    for name, value in settings.items():
        object.__setattr__(one, name, value)
    one.__post_init__()
    return one


def test_what_it_says_of_itself() -> None:
    one = LimeTabular()
    assert one.local
    assert one.random
    assert not one.needs_gradients
    assert one.modalities == ("tabular",)
    assert one.canonical == (
        "LimeTabular(alpha=0.01, kernel_width=0.75, sigma=0.5, samples=1024, seed=0, scale_kernel=False)"
    )


def test_equal_numbers_have_one_canonical_form() -> None:
    wanted = "LimeTabular(alpha=0.0, kernel_width=2.0, sigma=1.0, samples=8, seed=3, scale_kernel=False)"
    assert settled(alpha=0, kernel_width=2, sigma=1, samples=np.int64(8), seed=np.int32(3)).canonical == wanted
    assert settled(alpha=-0.0, kernel_width=np.float32(2), sigma=np.float64(1), samples=8, seed=3).canonical == wanted


def test_columns_in_their_own_units():
    """Neighbours, distances and penalty in standard deviations, coefficients in the units of the columns."""
    scale = torch.tensor([1.0, 1e3, 1e-2, 0.0], dtype=torch.float64)
    x, background = inputs(3, 4) * scale, inputs(50, 4, seed=2) * scale
    model = Recorder(double_mlp(4)).eval()
    method = LimeTabular(alpha=0.1, sigma="std", samples=64, scale_kernel=True)
    found = method(calls.problem(model, x, target=1, background=background))
    near = model.neighbours(3, [64])[0]
    unit = background.std(0, correction=0).masked_fill(scale == 0, 1)
    assert torch.equal(near[..., 3], x[:, None, 3].expand(3, 64))  # a column without a spread never moves
    torch.testing.assert_close(((near - x[:, None]) / unit).std((0, 1))[:3], torch.ones(3).double(), rtol=0.2, atol=0)
    unscaled = nn.Sequential(Times(unit), model.model)
    wanted = by_sklearn(unscaled, x / unit, torch.ones(3, dtype=torch.long), near / unit, method) / unit
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match=r'background: LimeTabular\(sigma="std"\) needs rows of the training data'):
        method(calls.problem(model, x))
