"""A folder as ``save_pretrained`` leaves it: model and tokenizer, opened without a network and without code from it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verax.core.packages import optional_package
from verax.data.array_files import first_line
from verax.problem.text.folder_config import check_code, read_json

_TEXTS, _WORDS = "ForSequenceClassification", "ForTokenClassification"
_SAVE = "model.save_pretrained and tokenizer.save_pretrained save both in one folder"


def check_folder(folder: Path) -> bool:
    """Refuse a folder that holds no model, pickled weights alone, or a model that needs code of its own.

    Args:
        folder: What is to be opened; nothing in it is run or unpickled here or later.

    Returns:
        Whether the model gives classes for each token, not for the text.
    """
    config = read_json(folder / "config.json")
    if config is None:
        raise FileNotFoundError(f"{folder}: there is no config.json in it; {_SAVE}.")
    check_code(folder)
    _check_weights(folder)
    kinds = config.get("architectures") or []
    if not kinds or not str(kinds[0]).endswith((_TEXTS, _WORDS)):
        raise ValueError(
            f"{folder}: expected a model whose name ends in {_TEXTS} (classes, or one value) or {_WORDS}, got "
            f"{kinds[0] if kinds else 'no architectures in config.json'}. Language models are scored in Python: "
            "verax.text.generation."
        )
    return str(kinds[0]).endswith(_WORDS)


def open_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checked folder."""
    transformers = optional_package("transformers", "verax[text]", "a folder of transformers")
    try:
        with _offline():
            return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except _errors() as error:
        raise ValueError(f"{folder}: its tokenizer cannot be opened ({first_line(error)}); {_SAVE}.") from None


def open_classifier(folder: Path, words: bool = False) -> Any:
    """The model of a checked folder, in single precision, ready to score; weights that are missing are not made up.

    Args:
        folder: What ``check_folder`` has seen.
        words: Whether it gives classes for each token.
    """
    import torch  # noqa: PLC0415

    transformers = optional_package("transformers", "verax[text]", "a folder of transformers")
    kind = transformers.AutoModelForTokenClassification if words else transformers.AutoModelForSequenceClassification
    try:
        with _offline(), _quiet(transformers):
            model, loading = kind.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are told below
            )
    except _errors() as error:
        raise ValueError(f"{folder}: its model cannot be opened ({first_line(error)}).") from None
    lost = sorted({*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])})
    if lost:
        raise ValueError(
            f"{folder}: its weights do not fit config.json: {lost[0]} is missing or has another shape; save the model "
            "after it was trained for its task."
        )
    return model.eval()


def _check_weights(folder: Path) -> None:
    """Refuse weights that are not safetensors, and those of another folder."""
    if (folder / "adapter_config.json").is_file():  # transformers would follow it to another folder
        raise ValueError(f"{folder}: it holds an adapter of a model; merge it (merge_and_unload) and save the whole.")
    index = read_json(folder / "model.safetensors.index.json")
    parts = sorted({str(part) for part in (index or {}).get("weight_map", {}).values()}) or ["model.safetensors"]
    if other := [part for part in parts if not part.endswith(".safetensors") or Path(part).name != part]:
        raise ValueError(f"{folder}: expected weights in .safetensors files beside config.json, got {other[0]}.")
    if lost := [part for part in parts if not (folder / part).is_file()]:
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        if pickled:
            raise ValueError(
                f"{folder}: its weights are pickled ({pickled[0]}), which can run code and is not opened; load the "
                "model where you trust it and save it again with model.save_pretrained, which writes safetensors."
            )
        raise FileNotFoundError(f"{folder}: there is no {lost[0]} in it; {_SAVE}.")


def _errors() -> tuple[type[Exception], ...]:
    """What transformers raises over a folder that is not as it should be: as many as there are kinds of models."""
    import safetensors  # noqa: PLC0415  # beside transformers
    from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415

    plain = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, OSError)
    return (*plain, RuntimeError, TypeError, ValueError, StrictDataclassError, safetensors.SafetensorError)


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Without the Hub, whatever a file asks for."""
    from huggingface_hub import constants  # noqa: PLC0415  # beside transformers

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without bars of progress and notes of what was loaded, which is checked here."""
    log = transformers.utils.logging
    bars, level = log.is_progress_bar_enabled(), log.get_verbosity()
    log.disable_progress_bar()
    log.set_verbosity_error()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
