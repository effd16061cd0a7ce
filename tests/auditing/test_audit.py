"""``verax.audit`` as a person uses it: cases, a model of one's own, files, going on, and what is refused."""

import importlib
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import calls
import verax
from calls import audit
from verax.attribution import DeepLiftSHAP, Gradient, KernelShap
from verax.auditing import cases
from verax.auditing.choices import chosen_cases, chosen_replacements, chosen_trials
from verax.auditing.finding import COLUMNS
from verax.auditing.trials import Outcome, Trial, TruthWins
from verax.metrics import DirectedPredictionChange, EffectCorrelation, PredictionChange
from verax.problem.replacement import BASELINE, Nudge
from verax.scoring.scorer import Scorer
from verax.statistics.intervals import estimates

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
Y = (X @ np.array([2.0, -1.0, 1.0, 0.5, 0.0]) + 0.1 * RNG.normal(size=40) > 0).astype(int)
QUICK = {"metrics": ["pc", DirectedPredictionChange(), EffectCorrelation(samples=40)], "trials": ["tells_apart"]}


@pytest.fixture(scope="module")
def module():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).double()


@pytest.fixture(scope="module")
def linear():
    return cases(inputs=16)[0]


@pytest.fixture(scope="module")
def of_cases(linear):
    return audit(metrics=["pc", "dpc"], cases=[linear], replacements=["baseline", "conditional"], seed=1)


def test_the_table_has_the_columns_it_promises(of_cases):
    frame = of_cases.to_frame()
    assert tuple(frame.columns) == COLUMNS == (
        "metric", "replacement", "case", "trial", "value", "low", "high", "passed",
    )  # fmt: skip
    assert set(frame["case"]) == {"linear"}
    assert set(frame["metric"]) == {"pc", "dpc"}
    assert frame["passed"].dtype == pl.Boolean
    judged = frame.filter(pl.col("trial").str.starts_with("truth_wins:"))
    assert ((judged["low"] <= judged["value"]) & (judged["value"] <= judged["high"])).all()
    assert not frame.select("metric", "replacement", "case", "trial").is_duplicated().any()


def test_each_kind_is_judged_by_its_own_truth(of_cases):
    assert {(one.metric, one.kind) for one in of_cases.findings} == {("pc", "baseline"), ("dpc", "local")}


def test_three_sentences_then_the_table(of_cases):
    lines = str(of_cases).splitlines()
    assert lines[:3] == list(of_cases.sentences)
    assert lines[3] == ""
    assert lines[4].startswith("metric")
    assert all(sentence.endswith(".") for sentence in of_cases.sentences)
    assert "<table" in of_cases._repr_html_()


def test_what_was_left_out_is_said(of_cases):
    assert any("dpc with Conditional" in note and "direction" in note for note in of_cases.notes)
    assert set(of_cases.to_frame().filter(pl.col("metric") == "dpc")["replacement"]) == {"Baseline"}


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".json", ".html"])
def test_saves(of_cases, tmp_path, ending):
    path = tmp_path / f"audit{ending}"
    of_cases.save(path)
    if ending == ".parquet":
        assert pl.read_parquet(path).equals(of_cases.to_frame())
    if ending == ".html":
        page = path.read_text()
        assert all(part in page for part in ("Which metric can be trusted?", "truth_wins", "reliability, not validity"))
        assert "a constant added" in page


def test_the_same_seed_gives_the_same_figures(linear):
    settings = {"metrics": ["pc"], "cases": [linear], "replacements": ["baseline"], "trials": ["truth_wins"]}
    one, two, other = (audit(**settings, seed=seed).to_frame() for seed in (3, 3, 4))
    assert one.equals(two)
    assert not one.equals(other)


def test_goes_on_where_it_stopped(linear, tmp_path):
    settings = {
        "metrics": ["pc"], "cases": [linear], "replacements": ["baseline", "nudge:epsilon=0.1"],
        "trials": ["truth_wins", "reliability"], "out": tmp_path / "audit",
    }  # fmt: skip
    lines = []

    def stop(line):
        lines.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(**settings, progress=stop)
    assert len(lines) == 1
    whole = audit(**settings, progress=lines.append)
    assert [line.endswith("(kept)") for line in lines[1:]] == [True, False]
    again = audit(**settings)
    assert again.rows < whole.rows
    assert again.to_frame().equals(whole.to_frame())
    assert again.to_frame().equals(audit(**settings | {"out": None}).to_frame())


def test_progress_is_told_while_a_model_of_ones_own_runs(module, monkeypatch):
    monkeypatch.setattr(importlib.import_module("verax.auditing.audit"), "_EVERY", 0.0)
    lines = []
    problem = verax.Problem(module, X[:12], batch_size=64)
    verax.audit(problem, **QUICK, progress=lines.append)
    *within, last = lines
    counted = [int(line.removeprefix("your model: ").split(" model rows")[0].replace(",", "")) for line in within]
    assert len(counted) > 10
    assert counted == sorted(counted)
    assert last == "1 of 1: your model, Baseline"
    assert problem.scorer.counts.after_batch is None


def test_a_damaged_piece_is_named_and_made_anew(linear, tmp_path):
    settings = {"metrics": ["pc"], "cases": [linear], "replacements": ["baseline"], "trials": ["truth_wins"]}
    whole = audit(**settings, out=tmp_path)
    (path,) = (tmp_path / "pieces").iterdir()
    path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    with pytest.warns(UserWarning, match="damaged"):
        again = audit(**settings, out=tmp_path)
    assert again.to_frame().equals(whole.to_frame())
    audit(**settings, out=tmp_path, level=0.9)
    assert len(list((tmp_path / "pieces").iterdir())) == 2  # another level is another piece

    def other(rows):
        return (rows * torch.arange(rows.shape[1])).sum(1)

    problem = linear.problem.with_model(verax.Scorer(other, returns="values", takes="torch"))
    changed = audit(**settings | {"cases": [replace(linear, problem=problem)]}, out=tmp_path)
    assert not changed.to_frame().equals(whole.to_frame())  # what belongs to another model is not taken


class Counted(torch.nn.Module):
    """A network that counts the rows that it, and every copy of it, is called with."""

    rows = 0

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, rows):
        Counted.rows += len(rows)
        return self.network(rows)


@pytest.mark.parametrize("kind", ["module", "function"])
def test_rows_hold_those_of_methods_and_of_randomised_models(module, kind, monkeypatch):
    monkeypatch.setattr(Counted, "rows", 0)
    counted, trials = Counted(module), ["tells_apart", "randomised_model"]
    model = counted
    if kind == "function":
        model = verax.Scorer(lambda rows: counted(torch.as_tensor(rows)).detach().numpy(), returns="logits")
    found = audit(model, X[:16], {"SHAP": KernelShap(40)}, metrics=["pc"], trials=trials)
    assert found.rows == Counted.rows


def test_an_audit_of_one_model_opens_one_session_for_each_model(module, monkeypatch):
    """The model's own for all metrics and trials, and one for each of the randomised models that are explained.

    Inputs were checked when the problem was made, and are not checked again.
    """
    session, owners, checks = Scorer.session, [], []

    def counted(self, *arguments, **settings):
        owners.append(self)
        return session(self, *arguments, **settings)

    monkeypatch.setattr(Scorer, "session", counted)
    problem = verax.Problem(module, X[:16], background=X)
    monkeypatch.setattr("verax.problem.problem.checked_inputs", lambda *given: checks.append(given))
    verax.audit(problem, metrics=["pc", "dpc", EffectCorrelation(samples=20)])
    assert not checks
    randomised = 16 + 4  # with all layers, and with the last one
    assert len(owners) == len({id(owner) for owner in owners}) == 1 + randomised
    verax.evaluate(problem, X[:16], ["pc"])
    assert len(owners) == 2 + randomised  # it is held no longer


def test_ones_own_model_without_explanations(module):
    found = audit(module, X, **QUICK)
    about = {one.about.split(" from ")[0] for one in found.findings}
    assert about == {"gradient", "integrated gradients"}
    assert found.inputs == 40
    local = [one for one in found.findings if one.metric == "effect_correlation"]
    assert all(one.passed for one in local)
    assert found.inputs_needed["effect_correlation"] <= 40
    assert found.sentences[0].startswith("Use ")
    assert "40 inputs" in found.sentences[0]


def test_a_model_that_is_no_torch_module():
    model = LogisticRegression().fit(X, Y)
    found = audit(model, X, metrics=["pc"], trials=["tells_apart", "randomised_model", "falls_with_damage"])
    assert any(note.startswith("Left out: randomised_model") and "no torch module" in note for note in found.notes)
    assert found.inputs_needed["pc"] <= 40
    assert {one.about.split(" from ")[0] for one in found.findings if one.family == "tells_apart"} == {"kernel shap"}
    assert {one.case for one in found.findings} == {"your model"}


def test_what_the_best_metric_cannot_see_is_said_with_it():
    model = LogisticRegression().fit(X, Y)
    found = audit(model, X, metrics=["pc"], trials=["tells_apart"])
    assert "mind that it is blind to a constant added" in found.sentences[0]


def test_what_is_worthless_is_not_told_apart():
    """Random explanations, given as if they were some: no metric may claim to tell them from random ones."""
    model = LogisticRegression().fit(X, Y)
    found = audit(model, X, {"lots": RNG.normal(size=X.shape)}, **QUICK)
    assert all(count > 40 for count in found.inputs_needed.values())
    assert found.sentences[0].startswith("No metric tells")
    assert "cannot" in found.sentences[2]


def test_given_explanations_and_methods(module):
    given = {"mine": X * 2, "gradient": Gradient(), "shap": KernelShap(samples=32)}
    found = audit(module, torch.tensor(X), given, **QUICK)
    local = {one.about.split(" from ")[0] for one in found.findings if one.kind == "local"}
    assert local == {"mine", "gradient"}  # Shapley values are of the other kind
    pairs = [one for one in found.findings if one.about == "mine from gradient"]
    assert pairs
    assert all(one.value >= 2 for one in pairs)


def test_methods_that_draw_from_each_class_get_the_classes(module):
    method = DeepLiftSHAP(background=0.5, samples=8)
    given = {"background": X, "background_labels": Y}
    own = calls.attribute([method], module, X, **given)
    one, other = (audit(module, X, {"dls": each}, **given, **QUICK) for each in (method, own[method.canonical]))
    wanted = other.to_frame().filter(pl.col("metric") == "pc")  # an array is rated by local metrics, too
    assert one.to_frame().filter(pl.col("metric") == "pc").equals(wanted)


def test_explanations_may_be_called_anything(module):
    given = {"random": X * 2, "truth": Gradient(), "noise 0.5": KernelShap(samples=32)}
    found = audit(module, X, given, metrics=["pc"], trials=["tells_apart", "falls_with_damage", "reliability"])
    assert not found.to_frame().select("metric", "replacement", "trial").is_duplicated().any()
    named = audit(module, X, {"one": X * 2}, metrics=["pc"], trials=["reliability"])
    other = audit(module, X, {"random": X * 2}, metrics=["pc"], trials=["reliability"])
    assert named.to_frame().equals(other.to_frame())


def test_the_number_of_inputs_needed_falls_with_better_explanations(module):
    x = torch.tensor(X)
    slopes = calls.explained(Gradient(), module, x)
    noisy = slopes + 3 * slopes.std() * torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).double()
    good, bad = (audit(module, x, {"one": one}, **QUICK).inputs_needed["effect_correlation"] for one in (slopes, noisy))
    assert good < bad


def test_columns_are_found_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = LogisticRegression().fit(frame, Y)
    mixed = frame[list("ecabd")]
    sign = np.where(model.predict(frame) == 1, 1.0, -1.0)[:, None]
    shares = pd.DataFrame(sign * X * model.coef_[0], columns=list("abcde"))
    plain, by_name, listed = (
        audit(model, x, {"shares": given}, **QUICK).to_frame()
        for x, given in ((frame, shares), (mixed, shares[list("bcdea")]), (X.tolist(), shares.to_numpy()))
    )
    assert plain.equals(by_name)
    assert plain.equals(listed)
    assert plain.filter(pl.col("metric") == "pc")["passed"].all()


def test_groups_have_one_number_each(module):
    found = audit(module, X, {"by group": RNG.normal(size=(40, 2))}, features=[0, 0, 1, 1, 1], **QUICK)
    assert found.findings


def test_trials_of_ones_own_are_known_by_name(linear):
    class Always(Trial):
        name, asks, passes = "always_passed", "Nothing.", "Always."

        def explanations(self, ground):
            return {"truth": ground.truth}

        def outcomes(self, ground, shown, scores, bench):
            for metric, found in scores.items():
                yield metric, Outcome(self.name, estimates(found["truth"][None])[0], True, len(found["truth"]))

    found = audit(metrics=["pc"], cases=[linear], replacements=["baseline"], trials=["always_passed"])
    assert [one.trial for one in found.findings] == ["always_passed"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attributions": {"x": X}}, "attributions: they are those of a model; pass a verax.Problem as well"),
        ({"problem": ["linea"]}, "did you mean 'linear'"),
        ({"problem": []}, "cases: expected at least one"),
        ({"trials": ["truth_win"]}, "did you mean 'truth_wins'"),
        ({"trials": []}, "trials: expected at least one"),
        ({"metrics": ["pcc"]}, "metrics: expected"),
        ({"replacements": ["blurr"]}, "did you mean 'blur'"),
    ],
)
def test_refuses_before_any_work(settings, words):
    with pytest.raises(ValueError, match=words):
        verax.audit(**settings)


def test_few_inputs_are_refused(module):
    with pytest.raises(ValueError, match="at least 8"):
        audit(module, X[:7])


def test_defaults_cover_everything():
    names = {type(one).__name__ for one in chosen_replacements(None, False, own_model=False)}
    assert {"Baseline", "Toward", "Nudge", "Blur", "NoisyLinear", "Marginal", "Conditional"} <= names
    assert chosen_replacements(None, False, own_model=True) == (BASELINE,)
    assert chosen_replacements(Nudge(0.1), False, own_model=True) == (Nudge(0.1),)
    known = {trial.name for trial in chosen_trials(None, own_model=False)}
    assert {
        "truth_wins",
        "falls_with_damage",
        "peaks_at_truth",
        "randomised_model",
        "reliability",
        "consistency",
    } <= known
    assert len(chosen_cases(None, 0)) >= 12
    assert all(trial.passes and trial.asks for trial in chosen_trials(None, own_model=False))
    assert known ^ {trial.name for trial in chosen_trials(None, own_model=True)} == {
        "truth_wins",
        "peaks_at_truth",
        "tells_apart",
    }


def test_every_case_with_every_replacement():
    metrics = {"pc": PredictionChange(), "local": EffectCorrelation(samples=20)}
    found = audit(metrics=metrics, cases=cases(inputs=8), trials=["truth_wins"])
    tried = {(one.case, one.replacement) for one in found.findings if one.metric == "pc"}
    assert len({case for case, _ in tried}) == len(cases(inputs=1))
    assert {replacement for case, replacement in tried if case == "planted patch"} >= {"Blur(sigma=1.0)", "NoisyLinear"}
    assert {replacement for case, replacement in tried if case == "planted word"} == {"Baseline"}
    scales = {one.case: one.scale for one in found.findings if one.kind == "local"}
    assert scales["shattered gradients"] is not None
    assert scales["linear"] is None


def test_thresholds_are_said_as_they_are_set():
    assert "above 0.9" in chosen_trials([TruthWins(share=0.9)], own_model=False)[0].passes
    with pytest.raises(ValueError, match="metrics: expected a list"):
        audit(metrics="pc")


def test_a_metric_that_loses_is_not_recommended(linear):
    settings = {"cases": [linear], "replacements": ["baseline"], "trials": ["truth_wins"]}
    assert "use none of these: the best, dpc, puts" in audit(metrics=["dpc"], **settings).sentences[0]
    assert "use infidelity, which puts" in audit(metrics=["dpc", "infidelity"], **settings).sentences[0]


def test_other_trials_of_ones_own_model_have_sentences_too(module):
    found = audit(module, X, metrics=["pc", "dpc"], trials=["falls_with_damage"])
    assert "trials, the most" in found.sentences[0]
    assert "tells_apart" in found.sentences[2]


def test_infinity_is_said_in_words(module):
    found = audit(module, X, {"zero": np.zeros_like(X)}, metrics=[PredictionChange()], trials=["tells_apart"])
    assert math.isinf(max(found.inputs_needed.values()))
    assert "never" in str(found)
