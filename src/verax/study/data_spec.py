"""What a spec says about data and models: which, where they are, and how predictions are explained."""

from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from verax.core.registry import unknown
from verax.data.base import Part
from verax.data.catalogue import names, source_of
from verax.data.labels import Asked
from verax.paper.models.recipes import Recipe, varied
from verax.scoring.adapters import Returns
from verax.scoring.model_files.opening import check_model_name
from verax.scoring.precision import Precision
from verax.study.configurations import AttributionsSpec
from verax.study.spec_table import Count, Name, SpecTable, unknown_name

LIVE = "live"
"""The name of data that were objects of a running program."""


def some(listed: Any) -> Any:
    """A list of tables as a tuple, refused where it is empty."""
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError("expected a list of tables, at least one")
    return tuple(listed)


class ModelSpec(SpecTable):
    """A model: one of the paper's architectures, trained with its recipe, or a file.

    Attributes:
        name: What tables and figures call it.
        architecture: What to train.
        recipe: Which variant of the architecture's recipe: ``"less-regularised"`` (for mlp: small steps, little weight
            decay and noise, plain labels, no average of weights) or ``"balanced"`` (classes weigh the same); the
            shipped one where left out.
        path: A trained model: ``.safetensors`` with its sidecar, as ``verax train`` writes it, ``.onnx``, ``.skops``
            (scikit-learn), ``.json`` or ``.ubj`` (XGBoost), ``.txt`` (LightGBM), ``.cbm`` (CatBoost) or ``.pt2``
            (``torch.export``). Files of other libraries get rows in the data's own units. The key may be called
            ``file``, too.
        returns: What the outputs of such a file are, where it does not say so: ``"logits"``, ``"probabilities"`` or
            ``"values"``.
        trust: Whether a file may be opened that can run code: ``.pt2``, or ``.skops`` with unknown classes.
        live: Whether it was an object of a running program (``verax.run_study``).
        seed: Of the training.
        precision: In which forward passes run on a GPU, ``"float32"``, ``"tf32"``, ``"bfloat16"`` or ``"float16"``, as
            for ``verax.Scorer``; torch's own settings where left out.
    """

    name: Name
    architecture: Literal["linear", "mlp", "inception"] | None = None
    recipe: Literal["less-regularised", "balanced"] | None = None
    path: str | None = Field(default=None, validation_alias=AliasChoices("path", "file"))
    returns: Returns | None = None
    trust: bool = False
    live: bool = False
    seed: int = 0
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
            varied(Recipe(), self.architecture, self.recipe)  # refuses what is for another architecture
        return self


class DataSpec(SpecTable):
    """A data set, the models that learn it, and how their predictions are explained.

    Attributes:
        name: Of a data set that is shipped, or of one's own: ``verax.datasets.names()``.
        path: For a data set that takes one.
        label: The column to predict, of a file.
        task: What for: ``"classification"``, ``"regression"``, or ``"auto"``, as the labels look.
        held_out: The column of a file that is true or 1 for rows that models of one's own have not learnt from: these
            are half validation and half test rows, all others are training rows. By default the study splits the rows
            at random, 60, 20 and 20 %, and cannot say how good such a model is on rows that are new to it.
        part: The rows to explain.
        limit: Only so many rows of that part, drawn at random by the seed: the same for all models and metrics, and a
            smaller number is a part of a larger one.
        seed: Of the split, and of the order in which rows are explained.
        background: Training rows for methods that need some; all of a table, 1,024 images.
        models: What explains.
        attributions: What is compared.
        chunk: Inputs in a unit of work; found automatically.
    """

    name: str
    path: str | None = None
    label: str | None = None
    task: Asked = "auto"
    held_out: str | None = None
    part: Part = "validation"
    limit: Count | None = None
    seed: int = 0
    background: Count | None = None
    models: tuple[ModelSpec, ...]
    attributions: AttributionsSpec = AttributionsSpec()
    chunk: Count | None = None

    @field_validator("models", mode="before")
    @classmethod
    def _as_tuple(cls, listed: Any) -> Any:
        return some(listed)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in (*names(), LIVE):
            raise unknown_name(unknown(name, names()))
        return name

    @model_validator(mode="after")
    def _fits(self) -> "DataSpec":
        if self.name == LIVE:
            return self
        source = source_of(self.name)
        if self.path is not None:
            source.check_path(given=True)
        source.check_label(self.label, self.task, self.held_out)
        if source.modality is not None:
            self.attributions.configurations(source.modality)
        return self
