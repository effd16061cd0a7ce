"""What a spec says about data, models and attributions: which, where they are, and how predictions are explained."""

import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from verax.attribution import METHODS, Attribution, grid
from verax.attribution.base import Modality
from verax.attribution.grid import removals
from verax.attribution.lime_image import Distance
from verax.core.registry import from_dict, unknown
from verax.data.base import Part
from verax.data.catalogue import names, source_of
from verax.data.columns import LabelTask
from verax.scoring.adapters import Returns
from verax.scoring.class_scores import Scale
from verax.scoring.inference import Precision
from verax.scoring.model_files.opening import check_model_name
from verax.scoring.model_files.saved import TRAINING

Count = Annotated[int, Field(ge=1)]
UNKNOWN_NAME = "unknown_name"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?")


def plain_name(name: str) -> str:
    """Raise for a name that could be taken for a path, or that a terminal or a file system would not take as it is."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '_', '-', '.' and spaces, beginning with a letter or digit, and no path"
        raise ValueError(f"expected a name: {allowed}")
    return name


Name = Annotated[str, AfterValidator(plain_name)]
# a whole path, for workers and later runs elsewhere
PathText = Annotated[str, AfterValidator(lambda path: str(Path(path).expanduser().absolute()))]


class SpecTable(BaseModel):
    """A table of a spec."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def mistake(message: object, kind: str = "mistake") -> PydanticCustomError:
    """An error whose message names what was expected and found; an unknown name gets the advice of the reader."""
    custom: Any = PydanticCustomError  # whose types take literal strings alone
    return cast("PydanticCustomError", custom(kind, "{message}", {"message": str(message)}))


def list_of(what: str, least: int = 0) -> BeforeValidator:
    """Take a list as a tuple, of so many entries at least."""

    def as_tuple(listed: Any) -> tuple[Any, ...]:
        if not isinstance(listed, list | tuple) or len(listed) < least:
            raise ValueError(f"expected a list of {what}{', at least one' if least else ''}")
        return tuple(listed)

    return BeforeValidator(as_tuple)


def configuration(settings: Any) -> Attribution:
    """Make a configuration from a table with ``method`` and its settings.

    Example:
        >>> configuration({"method": "IntegratedGradients", "baseline": "max"}).canonical
        "IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)"
    """
    table = settings if isinstance(settings, Mapping) else {"method": settings}
    try:
        kind = METHODS.get(table.get("method"))
    except ValueError as error:
        raise mistake(error, UNKNOWN_NAME) from None
    if table is not settings:
        raise ValueError(f"expected a table with method, got {settings!r}")
    method: Attribution = from_dict(kind, {name: value for name, value in settings.items() if name != "method"})
    return method


def _checked_configuration(settings: Any) -> Any:
    try:
        configuration(settings)
    except (ValueError, TypeError) as error:
        raise error if isinstance(error, PydanticCustomError) else mistake(error) from None
    return settings


Configured = Annotated[dict[str, Any], BeforeValidator(_checked_configuration)]


class AttributionsSpec(SpecTable):
    """Which attributions: the paper's grid, all of it or thinned, and any others."""

    grid: bool = True  # whether to take the grid for the kind of data
    every: Count = 1  # of LIME's configurations, only every so manieth, the first one included
    # whether the grid's kernel widths of LIME on tables are times the root of the number of features
    scale_kernel: bool = False
    # what the grid's LIME on images weighs its samples by, ``"masks"`` or ``"inputs"``
    lime_distance: Distance = "masks"
    # seeds of each of the grid's two random attributions. One of each, as in the paper, is a chance level that hangs on
    # two draws; 50 make a hundred.
    random_seeds: Count = 1
    # what methods explain: ``"log_odds"`` of the class, its ``"logit"``, as in the paper, or ``"probability"``. For
    # models with one logit, log-odds and logit are the same.
    explained: Scale = "log_odds"
    # whether to take methods that remove features as well, Occlusion, Shapley values and LIME over features: they need
    # no gradients and take categories
    removals: bool = False
    # further configurations, each a table with ``method`` and its settings
    others: Annotated[tuple[Configured, ...], list_of("tables, each with a method")] = ()

    def configurations(self, modality: Modality) -> list[Attribution]:
        """The configurations for a kind of data, each once, in the grid's order.

        Example:
            >>> [len(AttributionsSpec(every=every).configurations("tabular")) for every in (1, 10)]
            [775, 119]
        """
        chosen: list[Attribution] = []
        if self.grid:
            chosen += thinned(_grid(modality, self.scale_kernel, self.lime_distance, self.random_seeds), self.every)
        chosen += thinned(removals(modality), self.every) if self.removals else []
        chosen += [configuration(settings) for settings in self.others]
        unsuitable = dict.fromkeys(type(method).__name__ for method in chosen if modality not in method.modalities)
        if unsuitable:
            verb = "is" if len(unsuitable) == 1 else "are"
            raise ValueError(f"attributions.others: {' and '.join(unsuitable)} {verb} not for {modality} data")
        if not chosen:
            raise ValueError("attributions: expected grid = true, removals = true or some others, got none")
        return list(dict.fromkeys(chosen))


@functools.cache  # it is asked for some ten times in a run
def _grid(modality: Modality, scale_kernel: bool, distance: Distance, random_seeds: int) -> tuple[Attribution, ...]:
    return tuple(grid(modality, scale_kernel=scale_kernel, distance=distance, random_seeds=random_seeds))


def thinned(configurations: Sequence[Attribution], every: int) -> list[Attribution]:
    """All configurations but those of LIME, and of these the first and then every so manieth.

    LIME's are 94 to 96 % of the grid. A number that shares no factor with 2 and 3 visits all values of all settings.
    """
    lime = [method for method in configurations if method.label == "LIME"]
    dropped = set(lime) - set(lime[::every])
    return [method for method in configurations if method not in dropped]


LIVE = "live"
"""The name of data that were objects of a running program."""


class ModelSpec(SpecTable):
    """A model: one of the paper's architectures, trained with its recipe, or a file."""

    name: Name  # what tables and figures call it
    architecture: Literal["linear", "mlp", "inception"] | None = None  # what to train
    # which variant of the architecture's recipe: ``"less-regularised"`` (for mlp: small steps, little weight decay and
    # noise, plain labels, no average of weights) or ``"balanced"`` (classes weigh the same); the shipped one where left
    # out
    recipe: Literal["less-regularised", "balanced"] | None = None
    # a trained model: ``.safetensors`` with its sidecar, as ``verax train`` writes it, ``.onnx``, ``.skops`` (scikit-
    # learn), ``.json`` or ``.ubj`` (XGBoost), ``.txt`` (LightGBM), ``.cbm`` (CatBoost) or ``.pt2`` (``torch.export``).
    # Files of other libraries get rows in the data's own units. The key may be called ``file``, too.
    path: PathText | None = Field(default=None, validation_alias=AliasChoices("path", "file"))
    # what the outputs of such a file are, where it does not say so: ``"logits"``, ``"probabilities"`` or ``"values"``
    returns: Returns | None = None
    trust: bool = False  # whether a file may be opened that can run code: ``.pt2``, or ``.skops`` with unknown classes
    live: bool = False  # whether it was an object of a running program (``verax.run_study``)
    seed: int = 0  # of the training
    # in which forward passes run on a GPU, ``"float32"``, ``"tf32"``, ``"bfloat16"`` or ``"float16"``, as for
    # ``verax.Scorer``; torch's own settings where left out
    precision: Precision | None = None

    @field_validator("path")
    @classmethod
    def _a_model(cls, path: str | None) -> str | None:
        if path is not None:
            check_model_name(path)
        return path

    @model_validator(mode="after")
    def _one_source(self) -> "ModelSpec":
        if (self.architecture is not None) + (self.path is not None) + self.live != 1:
            raise ValueError("expected either architecture (to be trained) or path (a file, trained already)")
        if self.recipe is not None and self.architecture is None:
            raise ValueError("recipe: only what is trained has one, expected architecture beside it")
        if self.architecture is not None:
            importlib.import_module(TRAINING).check_recipe(self.architecture, self.recipe)
        return self


class DataSpec(SpecTable):
    """A data set, the models that learn it, and how their predictions are explained."""

    name: str  # of a data set that is shipped, or of one's own: ``verax.datasets.names()``
    path: PathText | None = None  # for a data set that takes one
    label: str | None = None  # the column to predict, of a file
    task: LabelTask = "auto"  # what for: ``"classification"``, ``"regression"``, or ``"auto"``, as the labels look
    # the column of a file that is true or 1 for rows that models of one's own have not learnt from: these are half
    # validation and half test rows, all others are training rows. By default the study splits the rows at random, 60,
    # 20 and 20 %, and cannot say how good such a model is on rows that are new to it.
    held_out: str | None = None
    part: Part = "validation"  # the rows to explain
    # only so many rows of that part, drawn at random by the seed: the same for all models and metrics, and a smaller
    # number is a part of a larger one
    limit: Count | None = None
    seed: int = 0  # of the split, and of the order in which rows are explained
    background: Count | None = None  # training rows for methods that need some; all of a table, 1,024 images
    models: Annotated[tuple[ModelSpec, ...], list_of("tables", least=1)]  # what explains
    attributions: AttributionsSpec = AttributionsSpec()  # what is compared
    chunk: Count | None = None  # inputs in a unit of work; found automatically

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in (*names(), LIVE):
            raise mistake(unknown(name, names()), UNKNOWN_NAME)
        return name

    @model_validator(mode="after")
    def _fits(self) -> "DataSpec":
        if self.name == LIVE:
            return self
        source = source_of(self.name)
        if self.path is not None:
            source.check_path(has_path=True)
        source.check_label(self.label, self.task, self.held_out)
        if source.modality is not None:
            self.attributions.configurations(source.modality)
        return self
