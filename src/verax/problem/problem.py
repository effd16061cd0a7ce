"""``verax.Problem``: a model, the rows to explain, and how. Every verb takes one."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_choice
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.baselines import checked_background, spreads
from verax.problem.features import FeatureMap, Groups
from verax.problem.inputs import CheckedInputs, Inputs, checked_inputs, plain_rows
from verax.problem.replacement import BASELINE, Replacement, ReplacementLike, checked_replacement
from verax.scoring.adapters import labels_of
from verax.scoring.class_scores import (
    ClassNumbers,
    CleanOutputs,
    Output,
    Scale,
    Target,
    checked_target,
    class_scores,
    target_of_rows,
    target_scores,
)
from verax.scoring.frames import ColumnOrder, column_order
from verax.scoring.inference import gradients_off
from verax.scoring.scorer import Scorer, checked_batch_size, checked_device, scorer_of
from verax.scoring.session import Session

ReadRows = Callable[[Any], Inputs]


class Problem:
    """A model, the rows to explain, and how; checked once, its unperturbed rows scored once.

    Args:
        model: A torch module (returns logits), a classifier or regressor of scikit-learn, XGBoost, LightGBM or
            CatBoost, a path of an ONNX file, or a ``verax.Scorer`` around anything else.
        inputs: Rows to explain, ``(N, ...)``: NumPy, torch, or a data frame of numbers, whose columns are found by
            name where the model knows names. Tables with categories: ``verax.tables.problem``; texts:
            ``verax.text.classification`` and ``verax.text.generation``.
        target: Which class score to track: predicted (``None``), a column number, a label as text, or one of them per
            row. Of a model with several values, the number or name of one.
        output: The score that metrics track, ``"probability"`` or ``"logit"``; a regressor's value as it is.
        explained: The score that methods explain: ``"log_odds"`` of the class, its ``"logit"`` or ``"probability"``.
            Of several logits, one can rise while its class's probability falls; log-odds rise and fall with it. For
            models with one logit, log-odds and logit are the same; a regressor's value is explained as it is.
        features: What one feature is: ``"element"``, ``"pixel"`` (all channels of a position), an array of group
            numbers (for all rows or one map each; negative numbers are never removed), or ``"auto"``: pixels for
            inputs ``(N, C, H, W)``, elements otherwise.
        baselines: What removed features become: a number, anything that broadcasts to the inputs, or ``"mean"``,
            ``"median"``, ``"mode"``, ``"zero"`` of the background.
        background: Rows of training data: for baselines, replacements and noise that are measured by them, and for
            methods that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        replacement: What removed features become instead of their baselines, one of ``verax.replacement``.
        names: Name of each feature; the columns of a data frame by default.
        categorical: Which values are categories and not amounts: True, False, or one truth value per element of a row.
            Categories have no direction, and no noise is added to them. Whole numbers need it, and ``baselines``.
        model_kwargs: Arrays ``(N, ...)`` by name that the model is called with beside each row, unperturbed.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(50, 4)
        >>> problem = verax.Problem(model, x, target=1)
        >>> attributions = verax.explain(problem, {"gradient": verax.attribution.Gradient()})
        >>> verax.evaluate(problem, attributions, ["pc"])["pc"].value["gradient"].shape
        torch.Size([50])
        >>> len(problem[:10]), len(problem.on(torch.randn(3, 4)))  # some of its rows; the same about other rows
        (10, 3)
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        *,
        target: Any = None,
        output: Output = "probability",
        explained: Scale = "log_odds",
        features: Any = "auto",
        baselines: Any = 0.0,
        background: Any = None,
        background_labels: Any = None,
        replacement: ReplacementLike = None,
        names: Sequence[str] | None = None,
        categorical: Any = None,
        model_kwargs: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        checked_choice("output", output, get_args(Output))
        checked_choice("explained", explained, get_args(Scale))
        self.scorer: Scorer = scorer_of(model)
        self.output, self.explained = output, explained
        self.batch_size, self.device = checked_batch_size(batch_size), checked_device(device)
        self.replacement: Replacement = (replacement is not None and checked_replacement(replacement)) or BASELINE
        if isinstance(inputs, Problem):
            raise TypeError("inputs: already a verax.Problem; pass it to the verbs as it is, or problem.on(rows).")
        rows = plain_rows(inputs, features, baselines, names, categorical, model_kwargs)
        self.order: ColumnOrder = column_order(self.scorer.feature_names, rows.values)
        self.rows: Inputs = rows.ordered(self.order)
        data = self.order("background", background)
        self.given: CheckedInputs = checked_inputs(self.rows, data, self.scorer.takes_missing)
        training_rows, labels = checked_background(data, background_labels, self.given.values, missing=True)
        self.background = None if training_rows is None else training_rows.to(self.given.values.device)
        self.background_labels = labels
        self.target: Target = checked_target(target, len(self.given))
        self.scorer.check_target(self.target)
        self._read: ReadRows | None = None
        self._clean: CleanOutputs | None = None
        self._open: Session | None = None
        self._held: list[Session] = []

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        shape = ", ".join(str(size) for size in self.inputs.shape)
        return f"Problem({self.scorer!r}, inputs of shape ({shape}), {self.features.most} features)"

    def __getitem__(self, rows: Any) -> "Problem":
        """Some of the rows, with all that belongs to each."""
        places = np.arange(len(self))[rows]
        order = torch.from_numpy(np.ascontiguousarray(places.reshape(-1)))
        rows = self.rows[slice(int(places), int(places) + 1) if places.ndim == 0 else rows]
        return self._with(
            rows=rows,
            given=self.given.at(order, rows),
            target=target_of_rows(self.target, places.reshape(-1), len(self)),
            _clean=None if self._clean is None else self._clean.at(order),
        )

    def on(self, inputs: Any, *, target: Any = None, model_kwargs: Mapping[str, Any] | None = None) -> "Problem":
        """The same question about other rows.

        Args:
            inputs: Rows like those of the problem: an array, a data frame, or texts, as its door took them.
            target: The class of each of them, where the problem has one per row.
            model_kwargs: What the model is called with beside each of them, where the problem has some.

        Example:
            >>> import torch, verax
            >>> problem = verax.Problem(torch.nn.Linear(4, 2), torch.randn(5, 4), baselines="mean",
            ...     background=torch.ones(9, 4))
            >>> problem.on(torch.zeros(3, 4)).baselines[0].tolist()
            [1.0, 1.0, 1.0, 1.0]
        """
        if target is None and self.target_per_row:
            raise ValueError("target: this problem has one class per row; pass target= for the other rows as well.")
        part = self._with(_clean=None, _held=[], rows=self.read(inputs, model_kwargs))
        if isinstance(inputs, Inputs):  # in the order of the model already, and so is what belongs to them
            part.order = replace(self.order, places=None)
        part.given = checked_inputs(part.rows, self.background, self.scorer.takes_missing)
        part.target = self.target if target is None else checked_target(target, len(part.given))
        self.scorer.check_target(part.target)
        return part

    def read(self, inputs: Any, model_kwargs: Mapping[str, Any] | None = None) -> Inputs:
        """Other rows as those of this problem are held, columns in the order of the model."""
        if isinstance(inputs, Inputs):
            return inputs
        if self._read is not None:
            return self._read(inputs)
        if self.rows.model_kwargs and model_kwargs is None:
            raise ValueError(f"model_kwargs: the model is called with {', '.join(self.rows.model_kwargs)}; pass them.")
        lengths: tuple[int, ...] = tuple(getattr(self.rows.baselines, "shape", ()))
        if len(self) > 1 and len(lengths) == self.inputs.ndim and lengths[0] == len(self):
            raise ValueError("baselines: this problem has one per row; make another problem for other rows.")
        if isinstance(self.features, Groups) and len(self.features.map) > 1:
            raise ValueError("features: this problem has one map per row; make another problem for other rows.")
        return replace(self.rows, values=self.order("inputs", inputs), model_kwargs=model_kwargs or {})

    def with_replacement(self, replacement: ReplacementLike) -> "Problem":
        """The same with something else in the place of removed features."""
        return self._with(replacement=checked_replacement(replacement) or BASELINE)

    def with_background_rows(self, rows: Int[Tensor, " m"]) -> "Problem":
        """The same with other rows of its background, some of them maybe more than once; baselines follow it."""
        if self.background is None:
            raise ValueError("background: this problem has none; pass background=train_inputs.")
        background = self.background[rows]
        labels = None if self.background_labels is None else self.background_labels[rows]
        given = checked_inputs(self.rows, background, self.scorer.takes_missing)
        return self._with(background=background, background_labels=labels, given=given)

    def with_model(self, model: Any) -> "Problem":
        """The same question about another model that takes the same rows."""
        scorer = scorer_of(model)
        return self._with(scorer=scorer, _clean=None, _held=self._held if scorer is self.scorer else [])

    def moved(self, values: Shaped[Tensor, "n *shape"]) -> "Problem":
        """The same with other values in the same rows: features, baselines, classes and what travels along stay."""
        return self._with(given=replace(self.given, values=values), _clean=None)

    @property
    def predicted(self) -> Int[Tensor, " n"]:
        """The class that the model predicts for each row, whatever the target."""
        with self.session() as session:
            return self._clean_outputs(session).predicted

    def with_target(self, target: Any) -> "Problem":
        """The same with another class, or output, that is tracked; ``ClassNumbers`` are its number in each row."""
        return self._with(target=checked_target(target, len(self)))

    def class_scores(self, output: Scale) -> Float[Tensor, "n classes"]:
        """Scores of all classes of the unperturbed rows, on the CPU in double precision."""
        with self.session(output) as session:
            return class_scores(self._clean_outputs(session).outputs, session.returns, output).double().cpu()

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """Names of the classes or values, where they are known; some models tell as they run."""
        labels = labels_of(self.scorer.adapter) if self.scorer.labels is None else self.scorer.labels
        return None if labels is None else tuple(labels)

    def _with(self, **changed: Any) -> "Problem":
        part = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in _DERIVED}
        part.__dict__.update(kept | {"_open": None} | changed)  # an open session batches the rows of this one alone
        return part

    @property
    def target_per_row(self) -> bool:
        """Whether each row has a target of its own."""
        if isinstance(self.target, ClassNumbers):
            return self.target.numbers.ndim > 0
        return isinstance(self.target, Tensor | tuple)

    @property
    def inputs(self) -> Shaped[Tensor, "n *shape"]:
        """The rows, columns in the order of the model."""
        return self.given.values

    @property
    def baselines(self) -> Shaped[Tensor, "n *shape"]:
        """What removed features become, seen in the inputs' shape."""
        return self.given.baselines

    @property
    def features(self) -> FeatureMap:
        """What one feature is."""
        return self.given.features

    @property
    def categorical(self) -> Bool[Tensor, "*shape"] | None:
        """Which elements of a row are categories; None where none is."""
        return self.given.codes

    @property
    def names(self) -> tuple[str, ...] | None:
        """Name of each feature, if they have any."""
        return self.given.names

    def need_background(self, who: str) -> Shaped[Tensor, "m *shape"]:
        """The background, or an error that says who needs it."""
        if self.background is None:
            raise ValueError(f"background: {who} needs rows of the training data; pass background=train_inputs.")
        return self.background

    @cached_property
    def spread(self) -> Float[Tensor, "*shape"] | None:
        """Standard deviation of each element of a row over the background; None where there is no background."""
        return None if self.background is None else spreads(self.background)

    def fitted(self, replacement: Replacement) -> Replacement:
        """A replacement that has learnt what it needs of the background, once for the problem."""
        if id(replacement) not in self._fitted:
            self._fitted[id(replacement)] = (replacement, replacement.fitted(self.background))
        return self._fitted[id(replacement)][1]

    @cached_property
    def _fitted(self) -> dict[int, tuple[Replacement, Replacement]]:
        """By identity, because settings need not be hashable; the first of each keeps its identity alive."""
        return {}

    @property
    def classes(self) -> Int[Tensor, " n"]:
        """The class, or the output, whose score is tracked for each row."""
        return self._scored[0]

    def scores(
        self, rows: Shaped[Tensor, "m *shape"] | None = None, owner: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, " m"]:
        """The tracked score of rows that were made from the inputs; without rows that of the inputs, computed once.

        Args:
            rows: Changed copies of inputs; batches are made of them as memory allows.
            owner: The number of the input that each row came from, whose class is scored; may be left out where there
                is one row per input.

        Example:
            >>> import torch, verax
            >>> total = verax.Scorer(lambda rows: rows.sum(1), returns="values")
            >>> problem = verax.Problem(total, torch.eye(2))
            >>> problem.scores().tolist(), problem.scores(torch.zeros(3, 2), torch.tensor([0, 0, 1])).tolist()
            ([1.0, 1.0], [0.0, 0.0, 0.0])
        """
        if rows is None:
            return self._scored[1]
        with self.session() as session:
            return session.scores_of(rows, owner, self._classes_on(session))

    def gradients(
        self, rows: Shaped[Tensor, "m *shape"] | None = None, owner: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, "m *shape"]:
        """Gradients of the score that methods explain, at rows, by default at the inputs; arguments as in ``scores``.

        Example:
            >>> import torch, verax
            >>> model = torch.nn.Linear(3, 2)
            >>> problem = verax.Problem(model, torch.randn(5, 3), target=1, explained="logit")
            >>> torch.equal(problem.gradients(), model.weight[1].detach().expand(5, 3))
            True
        """
        with self.session(self.explained, gradients=True) as session:
            return session.gradients_of(self.inputs if rows is None else rows, owner, self._classes_on(session))

    def _classes_on(self, session: Session) -> Int[Tensor, " n"]:
        return self.classes if session is self._open else self.begin(session)[0]

    @cached_property
    def _scored(self) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        with self.session() as session:
            classes, clean = self.begin(session)
            with torch.inference_mode(False):
                return classes.clone(), clean.clone()

    @contextlib.contextmanager
    def session(self, output: Scale | None = None, *, gradients: bool = False) -> Iterator[Session]:
        """Hold the model ready; scores are those of ``output``, by default what the problem tracks."""
        if self._open is not None:
            yield self._open
            return
        if self._held:
            beside = self.given.row_arguments
            beside = None if beside is None else beside.on(self._held[0].device)
            with gradients_off() if gradients else torch.inference_mode():
                session = replace(self._held[0], output=output or self.output, row_arguments=beside, classes=0)
                yield session
                session.settle()
            return
        with self.scorer.session(
            self.inputs,
            self.given.kind,
            output or self.output,
            self.batch_size,
            self.device,
            gradients=gradients,
            row_arguments=self.given.row_arguments,
        ) as session:
            yield session

    @contextlib.contextmanager
    def explaining(self, *, gradients: bool = False) -> Iterator["Problem"]:
        """The same with the model held ready, for methods: its scores are those that they explain.

        Args:
            gradients: Whether some method takes them.
        """
        with self.session(self.explained, gradients=gradients) as session:
            self.begin(session)
            yield self._with(_open=session)

    @property
    def open_session(self) -> Session:
        """The model as ``explaining`` holds it ready."""
        if self._open is None:
            raise RuntimeError("open_session: no model is held ready; explain problems with verax.explain.")
        return self._open

    def begin(self, session: Session) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        """The class of each row and its unperturbed score; the model runs the first time alone."""
        return session.tracked(self._clean_outputs(session), self.target)

    def _clean_outputs(self, session: Session) -> CleanOutputs:
        if self._clean is None:
            self._clean = session.clean_outputs(self.inputs, decide=self.target is None)
        return self._clean

    def clean_logits(self, session: Session) -> Float[Tensor, " n"]:
        """The tracked logit of each unperturbed row, whatever the session scores; no model row is needed."""
        classes, _ = self.begin(session)
        outputs = self._clean_outputs(session).outputs
        return target_scores(outputs.to(session.device), classes, session.returns, "logit")


_DERIVED = ("spread", "_fitted", "_scored")  # caches that other rows, targets or replacements would not share


def problem_of(model: Any, rows: Inputs, read: ReadRows | None = None, **settings: Any) -> Problem:
    """A problem of rows that a door made; ``read`` makes such rows of what the user has."""
    problem = Problem(model, rows, **settings)
    problem._read = read
    return problem


@contextlib.contextmanager
def held_ready(problem: Problem) -> Iterator[Problem]:
    """The same with its model held ready until the end, for itself and for all problems of the same model made of it.

    What runs inside has the caller's gradient mode, as without.
    """
    modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    with problem.session(gradients=problem.scorer.differentiable) as session:
        problem.begin(session)
        held = problem._with(_held=[session])
        try:
            with torch.inference_mode(modes[0]), torch.set_grad_enabled(modes[1]):
                yield held
        finally:
            held._held.clear()  # what was made of it and lives on opens sessions of its own


def checked_problem(problem: Any) -> Problem:
    """What a verb takes first; a bare model or bare rows are not enough."""
    if isinstance(problem, Problem):
        return problem
    raise TypeError(
        f"problem: expected a verax.Problem, got {type(problem).__name__}; make one of model and rows: "
        "verax.Problem(model, inputs)."
    )
