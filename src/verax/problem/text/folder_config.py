"""The JSON files of a folder of transformers: what in them names code, kernels or another place is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    """Refuse what would fetch or run code; it is never run, and then the model would not be what it says."""
    for path in sorted(folder.glob("*config*.json")):
        for key, value in _entries(read_json(path)):
            _check_entry(folder, path.name, key, value)


def _check_entry(folder: Path, name: str, key: str, value: Any) -> None:
    if key in _CODE and value:
        raise ValueError(
            f"{folder}: {name} asks for code of its own ({key}), which is never run. If transformers knows the "
            "model itself, take that entry out; otherwise open it in Python and call verax.compare."
        )
    if key.strip("_").removesuffix("_internal") in _KERNELS:
        named = list(value.values()) if isinstance(value, dict) else [value]
        if any(not isinstance(one, str | None) or one not in _BUILT_IN for one in named):
            known = ", ".join(sorted(one for one in _BUILT_IN if one))
            raise ValueError(
                f"{folder}: {name} asks for a kernel ({key}: {value!r:.60}), which is code and is never fetched; "
                f"expected one of {known}, or take that entry out."
            )
    if key in _ELSEWHERE and value:
        raise ValueError(
            f"{folder}: {name} has an entry {key}, which asks for weights or code that are not in the folder or not "
            "plain; save the whole model in ordinary precision, or open it in Python and call verax.compare."
        )
    if key == "num_hidden_layers" and isinstance(value, int) and value > _MOST_LAYERS:
        raise ValueError(f"{folder}: {name}: expected at most {_MOST_LAYERS:,} in {key}, got {value:,}.")


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Names and values at every depth: models of several parts have a config for each."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from node.items()
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def read_json(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None where there is none."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON ({first_line(error)}).") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected an object, got {type(found).__name__}.")
    return found
