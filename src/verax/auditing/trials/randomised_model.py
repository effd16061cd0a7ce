"""Notices a randomised model: explanations of shuffled weights must fall to chance on the real model."""

import copy
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from verax.attribution.base import explain
from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, Explanation, Scores
from verax.auditing.trials.base import Explanations, Outcome, Outcomes, Trial
from verax.auditing.trials.truth import RANDOM, random_explanations
from verax.core import noise
from verax.core.shapes import Float
from verax.metrics.base import Kind
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.scorer import Scorer
from verax.statistics.intervals import Estimate, estimates
from verax.statistics.paired import paired_differences

_FEW = 2  # inputs on which a method is tried


@dataclass(frozen=True)
class RandomisedModel(Trial):
    """What explanations of a randomised model keep of the real one's advantage over random explanations.

    Layers are randomised in turn, the last first: the weights of each are shuffled, so that their distribution stays.
    All explanations are scored on the real model. The row ``randomised_model: all layers`` is judged; with fewer layers
    something may be left to explain. The figure is a mean over several randomisations, and so is its interval: a single
    one may be like the model by chance. Where the explanations themselves stay alike, as in a model of few weights,
    there is nothing to notice, and the figure is not judged.

    Source: Adebayo et al., Sanity checks for saliency maps, NeurIPS 2018, turned to metrics.

    Args:
        share: A share passes whose interval is below it.
        alike: Mean cosine of both explanations from which they count as alike.
        randomisations: With all layers randomised; stages before have a quarter of them.
        inputs: The first so many are used.
    """

    share: float = 0.5
    alike: float = 0.3
    randomisations: int = 16
    inputs: int = 64

    name: ClassVar[str] = "randomised_model"
    asks: ClassVar[str] = "Does the explanation of a randomised model fall to chance on the real one?"

    @property
    def passes(self) -> str:
        return (
            "The real model's explanation is above random ones, and the interval of what is left with all layers "
            f"randomised is below {self.share:g} of that. A tie is a difference of 0."
        )

    def left_out(self, ground: AuditContext) -> str:
        subject = ground.subject
        if not isinstance(subject.problem.scorer.adapter, TorchModule):
            return "the model is no torch module, so it has no layers to randomise"
        if not subject.values.is_floating_point() or ground.kind not in subject.methods:
            return "no gradient method can explain these inputs"
        if not _layers(subject.problem.scorer.adapter.module):
            return "the model has no weights to randomise"
        try:
            _explained(subject.at(slice(0, _FEW)), ground.kind)
        except (ValueError, TypeError) as error:  # what methods raise for a model that they are not for
            return str(error)
        return ""

    def outcomes(self, ground: AuditContext, shown: Explanations, scores: Scores, bench: Bench) -> Outcomes:
        few = bench.at(slice(0, self.inputs))
        some = replace(ground, subject=few.subject)
        real = _explained(few.subject, ground.kind)
        stages = {
            stage: [_explained(few.subject, ground.kind, stage, ground.seed, at) for at in range(many)]
            for stage, many in self._stages(few.subject).items()
        }
        listed = {
            f"{stage}, {at}": explanation for stage, several in stages.items() for at, explanation in enumerate(several)
        }
        scores_by_metric = few.scores({"real": real, **random_explanations(some, real), **listed})
        last = max(stages)
        cosine = float(nn.functional.cosine_similarity(real[None], torch.stack(stages[last]), dim=-1).mean())
        for metric, by_name in scores_by_metric.items():
            chance = torch.stack([by_name[name] for name in RANDOM]).mean(0)
            above = paired_differences(by_name["real"], chance[None], ground.level)[0]
            for stage, several in stages.items():
                means = torch.stack([by_name[f"{stage}, {at}"] for at in range(len(several))]).mean(1)
                kept = _kept(means, float(by_name["real"].mean()), float(chance.mean()), ground.level)
                passed, says = None, ""
                if stage == last and cosine > self.alike:
                    alike = f"explanations of randomised models stay alike (mean cosine {cosine:.2g})"
                    says = f"{alike}, so the figure is not judged"
                elif stage == last:
                    passed = above.low > 0 and kept.high < self.share
                    says = "" if above.low > 0 else "does not put the explanation of the real model above random ones"
                layers = "all layers" if stage == last else f"last {stage}"
                yield metric, Outcome(self.name, kept, passed, len(real), says=says, explanation=layers)

    def _stages(self, subject: AuditedProblem) -> dict[int, int]:
        """Numbers of layers, counted from the output (one, half of them, all), and randomisations of each."""
        adapter = subject.problem.scorer.adapter
        count = len(_layers(adapter.module)) if isinstance(adapter, TorchModule) else 0
        stages = sorted({1, math.ceil(count / 2), count})
        return {stage: self.randomisations if stage == count else self.randomisations // 4 for stage in stages}


def _layers(module: nn.Module) -> list[str]:
    """Parts that have weights of their own, in the order in which they were defined."""
    return [name for name, part in module.named_modules() if next(part.parameters(recurse=False), None) is not None]


def _randomised(subject: AuditedProblem, layers: int, seed: int, number: int) -> Scorer:
    adapter = subject.problem.scorer.adapter
    assert isinstance(adapter, TorchModule)  # noqa: S101  # left_out has asked
    module = copy.deepcopy(adapter.module)
    chosen = _layers(module)[-layers:]
    with torch.no_grad():
        for name, part in module.named_modules():
            for parameter, weights in part.named_parameters(recurse=False) if name in chosen else ():
                weights.copy_(_shuffled(weights, f"{seed}/{name}/{parameter}/{number}"))
    known = subject.problem.scorer
    return Scorer(module, returns=adapter.returns, score=adapter.score, device=known.device, labels=known.labels)


def _shuffled(weights: Tensor, purpose: str) -> Tensor:
    """The same numbers on other places, each with a random sign, so that a bias or a lone weight changes, too."""
    key = noise.input_keys(torch.zeros(1, 1), 0, f"audit/randomised/{purpose}")
    count = weights.numel()
    order = noise.words(key, 0, count)[0].argsort(stable=True).to(weights.device)
    signs = torch.where(noise.words(key, count, count)[0] > 0, 1.0, -1.0).to(weights)
    return (weights.reshape(-1)[order] * signs).reshape(weights.shape)


def _explained(subject: AuditedProblem, kind: Kind, layers: int = 0, seed: int = 0, number: int = 0) -> Explanation:
    """An explanation of the model, or of one whose last layers are randomised.

    Of each randomised model explanations of all kinds are computed together, and once for all replacements.
    """
    if (kind, layers, seed, number, len(subject)) not in subject.explained:
        problem = subject.problem
        scorer = _randomised(subject, layers, seed, number) if layers else problem.scorer
        few = min(_FEW, len(subject))  # on which ``left_out`` has tried what can be computed
        kinds = [other for other in subject.methods if (other, 0, 0, 0, few) in subject.explained] if layers else [kind]
        methods = {str(other): subject.methods[other] for other in kinds}
        for name, values in explain(problem.with_model(scorer), methods).items():
            explanation = problem.features.reduce(torch.as_tensor(values).cpu().double(), slice(None))
            subject.explained[name, layers, seed, number, len(subject)] = explanation
        if layers:  # the rows of a changed model are part of the audit's cost
            problem.scorer.counts.rows += scorer.counts.rows
            problem.scorer.counts.rows_backward += scorer.counts.rows_backward
    return subject.explained[kind, layers, seed, number, len(subject)]


def _kept(means: Float[Tensor, " r"], real: float, chance: float, level: float) -> Estimate:
    """What is left over chance, as a share of what the real explanation has over it."""
    room = real - chance
    if room == 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    return estimates(((means - chance) / room)[None], level=level)[0]
