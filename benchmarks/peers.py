"""Peers as the benchmarks call them."""

from typing import Any

import common
import numpy as np
import quantus
import torch
from torch import Tensor, nn


class Quantus:
    """PixelFlipping on fixed inputs. Quantus has no LeRF, but the negative attribution gives it."""

    def __init__(self, model: nn.Module, inputs: Tensor, features_in_step: int = 1) -> None:
        self.model, self.inputs = common.TwoClassProbabilities(model).eval(), inputs.numpy()
        with torch.no_grad():
            self.classes = self.model(inputs).argmax(1).numpy()
        self.metric = quantus.PixelFlipping(
            features_in_step=features_in_step, normalise=False, perturb_baseline=0.0, disable_warnings=True
        )

    def curves(self, attribution: Tensor, batch_size: int) -> list[Any]:
        """Evaluate both orders."""
        return [
            self.metric(
                model=self.model,
                x_batch=self.inputs,
                y_batch=self.classes,
                a_batch=one.numpy(),
                softmax=False,
                batch_size=batch_size,
            )
            for one in (attribution, -attribution)
        ]

    def difference(self, attribution: Tensor, morf: Tensor, lerf: Tensor, batch_size: int) -> float:
        """Compare curves where both sides have a point: Quantus lacks the unperturbed one."""
        theirs = np.array(self.curves(attribution, batch_size))
        worst = float(np.abs(theirs - torch.stack((morf, lerf))[..., 1:].numpy()).max())
        if worst > 1e-5:
            raise SystemExit(f"Verax and Quantus disagree by {worst}: no point in comparing their speed.")
        return worst
