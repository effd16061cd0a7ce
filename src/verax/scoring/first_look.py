"""First look: a torch module that nobody described is judged by its first answers; what they leave open is said."""

from torch import Tensor, nn

from verax.core.shapes import Float
from verax.core.warn import warn
from verax.scoring.adapters import Adapter
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.probabilities import are_probabilities, in_unit_interval

_WAYS = (
    'verax.Scorer(model, returns="logits") for the logit of class 1, returns="probabilities" for its probability, '
    'returns="values" for a value such as a regression\'s'
)
_UNBOUNDED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class FirstLook:
    """What is asked once of a model: whether its outputs are what it is taken to return.

    Args:
        adapter: The model.
        said: Whether the user said what it returns.
    """

    def __init__(self, adapter: Adapter, said: bool) -> None:
        open_question = not said and adapter.returns == "logits"  # a configuration may have said that it is a value
        self.module = adapter.module if isinstance(adapter, TorchModule) and open_question else None
        self.done = self.module is None

    def judge(self, outputs: Float[Tensor, "n outputs"], rounding: float) -> None:
        """Look at the first outputs of a module that is taken to return logits because nobody said otherwise."""
        if self.done or self.module is None:
            return
        self.done = True
        if outputs.shape[1] == 1:
            self._judge_single(outputs, rounding)
        elif are_probabilities(outputs, rounding):
            warn(
                "The torch module is taken to return logits, but its outputs look like probabilities (in [0, 1], rows "
                'sum to 1). If they are, wrap it: verax.Scorer(model, returns="probabilities"); if they are logits, '
                'verax.Scorer(model, returns="logits") silences this.',
            )

    def _judge_single(self, outputs: Float[Tensor, "n 1"], rounding: float) -> None:
        bounded = not isinstance(_last_layer(self.module), _UNBOUNDED)
        if bounded and in_unit_interval(outputs, rounding):
            self.done = False  # to be refused again
            raise ValueError(
                "model: the torch module returns one number per row, all of them in [0, 1], and nobody said whether "
                f"it is a logit, a probability or a regression value. Say it: {_WAYS}."
            )
        warn(
            "The torch module returns one number per row, which may be a logit, a probability or a regression value; "
            f"it is taken to be a logit. Say it: {_WAYS}.",
        )


def _last_layer(module: nn.Module | None) -> nn.Module | None:
    """What a chain of layers ends with; anything else is a layer of its own."""
    while type(module) is nn.Sequential and len(module):
        module = module[-1]
    return module
