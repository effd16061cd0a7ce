"""A folder as ``save_pretrained`` leaves it: model and tokenizer, opened without a network and without code from it."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verax.core.files import entries
from verax.core.packages import optional_package
from verax.data.array_files import first_line

_BUILT_IN = frozenset((
    None, "", "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention",
    "batched_mm", "grouped_mm",
))  # fmt: skip
_KERNELS = ("attn_implementation", "experts_implementation")  # and what transformers calls them inside
_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")
_ELSEWHERE = (  # other models, kernels and weights, which transformers would look for on the Hub or on the disk
    "quantization_config", "use_kernels", "kernel_config", "use_timm_backbone", "use_pretrained_backbone", "backbone",
    "transformers_weights", "base_model_name_or_path", "peft_config", "_adapter_model_path",
)  # fmt: skip
_MOST_LAYERS = 10_000  # they are made one by one before any weight is read


def check_code(folder: Path) -> None:
    """Raise for what would fetch or run code; it is never run, and then the model would not be what it says."""
    for path in sorted(folder.glob("*config*.json")):
        for key, value in entries(read_json(path)):  # models of several parts have a config for each
            if problem := _problem_of(key, value):
                raise ValueError(f"{folder}: {path.name}{problem}.")


def _problem_of(key: str, value: Any) -> str:
    """What is wrong with an entry of a configuration; empty where nothing is."""
    if key in _CODE and value:
        return (
            f" asks for code of its own ({key}), which is never run. If transformers knows the model itself, take that "
            "entry out; otherwise open it in Python and call verax.compare"
        )
    if key.strip("_").removesuffix("_internal") in _KERNELS:
        named = list(value.values()) if isinstance(value, dict) else [value]
        if any(not isinstance(kernel, str | None) or kernel not in _BUILT_IN for kernel in named):
            return (
                f" asks for a kernel ({key}: {value!r:.60}), which is code and is never fetched; expected one of "
                f"{', '.join(sorted(filter(None, _BUILT_IN)))}, or take that entry out"
            )
    if key in _ELSEWHERE and value:
        return (
            f" has an entry {key}, which asks for weights or code that are not in the folder or not plain; save the "
            "whole model in ordinary precision, or open it in Python and call verax.compare"
        )
    if key == "num_hidden_layers" and isinstance(value, int) and value > _MOST_LAYERS:
        return f": expected at most {_MOST_LAYERS:,} in {key}, got {value:,}"
    return ""


def read_json(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None where there is none."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON ({first_line(error)}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object, got {type(content).__name__}.")
    return content


_TEXTS, _WORDS = "ForSequenceClassification", "ForTokenClassification"
_SAVE = "model.save_pretrained and tokenizer.save_pretrained save both in one folder"


def check_folder(folder: Path) -> bool:
    """Raise for a folder that holds no model, pickled weights alone, or a model that needs code of its own."""
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
    transformers = optional_package("transformers", "verax[text]", "a folder of transformers")
    try:
        with _alone(transformers):
            return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except _errors() as error:
        raise ValueError(f"{folder}: its tokenizer cannot be opened ({first_line(error)}); {_SAVE}.") from None


def open_classifier(folder: Path, words: bool = False) -> Any:
    """The model of a checked folder, in single precision, ready to score; weights that are missing are not made up."""
    import torch  # noqa: PLC0415

    transformers = optional_package("transformers", "verax[text]", "a folder of transformers")
    kind = transformers.AutoModelForTokenClassification if words else transformers.AutoModelForSequenceClassification
    try:
        with _alone(transformers):
            model, loading = kind.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # raised below
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
def _alone(transformers: Any) -> Iterator[None]:
    """Without the Hub, whatever a file asks for, and without bars and notes of what was loaded, which is checked."""
    from huggingface_hub import constants  # noqa: PLC0415  # beside transformers

    log, offline = transformers.utils.logging, constants.HF_HUB_OFFLINE
    bars, level = log.is_progress_bar_enabled(), log.get_verbosity()
    constants.HF_HUB_OFFLINE = True
    log.disable_progress_bar()
    log.set_verbosity_error()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
