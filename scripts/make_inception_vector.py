"""Compare verax's InceptionV1 with torchvision's googlenet, and write the test vector that stands for it elsewhere.

    PYTHONPATH=src python scripts/make_inception_vector.py --check    # needs torchvision
    PYTHONPATH=src python scripts/make_inception_vector.py --write    # says which of the two made it

Weights and inputs come from a formula, so the vector holds logits only. All is computed in double precision: what
remains is then the difference of the networks, and not of the machines.
"""

# it speaks to whom runs it
import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from verax.core import noise
from verax.paper.models import InceptionV1

VECTOR = Path(__file__).parents[1] / "tests" / "paper" / "models" / "inception_vector.json"
CASES = (((2, 3, 64, 64), 5), ((1, 3, 224, 224), 1), ((2, 3, 33, 47), 3), ((2, 3, 15, 15), 2))
TOLERANCE = 1e-5


def draws(name: str, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """Standard normal numbers that depend on a name alone."""
    key = noise.input_keys(torch.zeros(1, 1), 0, f"inception vector {name}")
    return noise.normals(key, 0, 1, torch.Size(shape).numel(), torch.float64).reshape(shape)


def formula(name: str, tensor: Tensor) -> Tensor:
    """The values of a weight, such that signals neither die nor grow on their way through the network."""
    if not tensor.is_floating_point():
        return torch.zeros_like(tensor)
    values = draws(name, tensor.shape)
    if tensor.ndim > 1:
        return values * (2 / tensor[0].numel()) ** 0.5
    if name.endswith("running_var"):
        return 1 + values.abs() / 4
    return values / 10 + (1 if name.endswith("weight") else 0)


def with_formula(network: nn.Module) -> nn.Module:
    """Give a network the formula's weights, in double precision and evaluation mode."""
    state = {name: formula(name, tensor) for name, tensor in network.state_dict().items()}
    network.double().load_state_dict(state)
    return network.eval()


def inputs(shape: tuple[int, ...]) -> Tensor:
    """The images of a case."""
    return draws(f"images {shape}", shape)


def torchvision() -> Any:
    """The torchvision package, or None where it cannot be imported."""
    try:
        return importlib.import_module("torchvision")
    except (ImportError, RuntimeError, AttributeError, OSError):  # what one made for another torch fails with
        return None


def ours(outputs: int, aux: bool = False) -> nn.Module:
    """Verax's network with the formula's weights."""
    return with_formula(InceptionV1(outputs=outputs, aux=aux).build())


def theirs(package: Any, outputs: int, aux: bool = False) -> nn.Module:
    """The network of torchvision with the formula's weights."""
    made = package.models.GoogLeNet(num_classes=outputs, aux_logits=aux, transform_input=False, init_weights=False)
    return with_formula(made)


def logits(network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """What a network says to the images of a case."""
    with torch.inference_mode():
        found: Tensor = network.to(dtype)(inputs(shape).to(dtype))
    return found.double()


def differences(package: Any) -> dict[str, float]:
    """The largest absolute difference in each case, in both precisions, and of the auxiliary heads."""
    found = {}
    for shape, outputs in CASES:
        for dtype in (torch.float64, torch.float32):
            pair = logits(ours(outputs), shape, dtype), logits(theirs(package, outputs), shape, dtype)
            found[f"{shape} {dtype}"] = float((pair[0] - pair[1]).abs().max())
    one, other = ours(4, aux=True), theirs(package, 4, aux=True)
    names = [list(network.state_dict()) for network in (one, other)]
    if names[0] != names[1]:
        raise SystemExit("the networks' weights differ in name or order")
    for head, channels in (("aux1", 512), ("aux2", 528)):
        x = inputs((2, channels, 14, 14))
        with torch.inference_mode():
            found[head] = float((one.get_submodule(head)(x) - other.get_submodule(head)(x)).abs().max())
    return found


def check(package: Any) -> int:
    """Print the differences; 0 if all are small."""
    if package is None:
        print("torchvision cannot be imported here, so there is nothing to compare with.")
        return 2
    found = differences(package)
    for case, difference in found.items():
        print(f"{case:40} {difference:.2e}")
    largest = max(found.values())
    print(f"torchvision {package.__version__}, torch {torch.__version__}: largest difference {largest:.2e}")
    return 0 if largest <= TOLERANCE else 1


def write(package: Any) -> int:
    """Write the vector from torchvision's network where there is one, else from verax's."""
    source = "verax InceptionV1" if package is None else f"torchvision {package.__version__} GoogLeNet"
    cases = []
    for shape, outputs in CASES:
        network = ours(outputs) if package is None else theirs(package, outputs)
        cases.append({"shape": shape, "outputs": outputs, "logits": logits(network, shape).tolist()})
    vector = {"source": source, "torch": torch.__version__, "cases": cases}
    VECTOR.write_text(json.dumps(vector, indent=1) + "\n")
    print(f"{VECTOR}: written from {source}")
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare with torchvision and print the largest difference")
    what.add_argument("--write", action="store_true", help="write the test vector")
    return (check if parser.parse_args().check else write)(torchvision())


if __name__ == "__main__":
    sys.exit(main())
