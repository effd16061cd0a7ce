"""Insertion and Deletion of token attributions, beside interpreto: the same curves, and the time they take.

interpreto wants other versions than the rest of the benchmarks, so give it an environment of its own:
``python -m venv env``, ``env/bin/pip install interpreto -e '.[text]'``, ``env/bin/python benchmarks/text.py``.

Both get the same model (a BERT from a configuration, trained here on planted words), texts and attributions, remove one
token at a time, and leave special tokens alone. interpreto rates one attribution after the other, with its batches of 4
rows and with larger ones; Verax takes all in one call. On a processor, seconds are those that one thread computes, so
that other work on the machine counts little; on a GPU they are those of a clock on the wall.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import common
import interpreto
import numpy as np
import torch
import transformers
from interpreto.attributions.base import AttributionOutput, ModelTask
from interpreto.attributions.metrics import Deletion, Insertion
from torch import Tensor

import verax
from verax import attribution as methods
from verax.problem.text.example import small_tokenizer
from verax.text import classification, embedded, per_token

common.PACKAGES = ("torch", "numpy", "transformers", "interpreto")
WANTED = {1: 5.0, 16: 20.0}
BATCHES = (4, 64)  # interpreto's own, and one that suits machines better
SIZES = {"cpu": ((32, 2), (128, 2)), "cuda": ((256, 4), (768, 12))}  # width and layers of the BERT
TEXTS = {"cpu": 12, "cuda": 8}  # few, for the peer's sake: more fill a GPU better
SAME = {"cpu": 1e-5, "cuda": 1e-4}  # on a GPU, results depend more on the size of a batch
WORDS = [f"w{number}" for number in range(500)]


def texts(count: int, longest: int, seed: int) -> tuple[list[str], Tensor]:
    """Texts of unlike lengths; the first fifty words speak for class 1, the next fifty for class 0."""
    rng = np.random.default_rng(seed)
    chosen = [rng.integers(len(WORDS), size=length) for length in rng.integers(longest // 4, longest + 1, size=count)]
    scores = [int((one < 50).sum()) - int(((one >= 50) & (one < 100)).sum()) for one in chosen]
    return [" ".join(WORDS[word] for word in one) for one in chosen], torch.tensor(scores).gt(0).long()


def trained(tokenizer: Any, device: str, hidden: int, layers: int, steps: int) -> Any:
    """A classifier that has heard of the planted words."""
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(4, hidden // 64),
        intermediate_size=4 * hidden,
        max_position_embeddings=128,
    )
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config).eval().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 if layers < 4 else 1e-4)
    for step in range(steps):
        some, labels = texts(64, 32, seed=step + 1)
        optimizer.zero_grad()
        encoded = tokenizer(some, padding=True, return_tensors="pt").to(device)
        model(**encoded, labels=labels.to(device)).loss.backward()
        optimizer.step()
    return model


def attributions(problem: verax.Problem) -> dict[str, Tensor]:
    """Sixteen that somebody would compare."""
    vectors = embedded(problem)
    on_tokens: list[Any] = [
        methods.Occlusion(),
        methods.Occlusion("keep_one_in"),
        *(methods.KernelShap(samples) for samples in (64, 128, 256)),
        methods.PermutationShap(128),
        methods.LimeGroups(samples=128),
        methods.Random(),
    ]
    slopes: list[Any] = [methods.Gradient(), *(methods.SmoothGrad(sigma, samples=20) for sigma in (0.02, 0.05, 0.1))]
    paths: list[Any] = [methods.IntegratedGradients(points=points) for points in (8, 32)]
    found = [method(problem) for method in on_tokens]
    # summed over a vector, slopes before a layer norm are 0, and the order would be that of rounding errors
    found += [per_token(method(vectors), "norm") for method in slopes]
    for values in (method(vectors) for method in paths):
        found += [per_token(values), per_token(values, "norm")]
    return {f"attribution {number}": values for number, values in enumerate(found)}


class Interpreto:
    """Its two metrics on fixed texts."""

    def __init__(self, model: Any, tokenizer: Any, given: list[str], problem: verax.Problem, target: Tensor) -> None:
        self.model, self.tokenizer, self.target = model, tokenizer, target
        self.encoded = [tokenizer(text, return_tensors="pt") for text in given]
        rows: Any = problem.rows
        self.places = torch.as_tensor(rows.features) >= 0
        self.tokens = rows.tokens

    def outputs(self, values: Tensor) -> list[AttributionOutput]:
        """Attributions in its own form."""
        return [
            AttributionOutput(
                attributions=row[own].float()[None],
                elements=list(tokens[1:-1]),
                model_inputs_to_explain=encoded,
                targets=target[None],
                model_task=ModelTask.CLASSIFICATION,
                granularity=interpreto.Granularity.TOKEN,
            )
            for row, own, tokens, encoded, target in zip(
                values, self.places, self.tokens, self.encoded, self.target, strict=True
            )
        ]

    def curves(self, values: Tensor, batch_size: int) -> dict[str, tuple[float, list[Tensor]]]:
        """The mean area and every text's scores, of Insertion and of Deletion."""
        outputs = self.outputs(values)
        found = {}
        for name, metric in (("insertion", Insertion), ("deletion", Deletion)):
            ready = metric(self.model, self.tokenizer, batch_size=batch_size, device=self.model.device)
            area, scores = ready.evaluate(outputs)
            found[name] = (area, [one[0].cpu() for one in scores])
        return found

    def all_curves(self, given: dict[str, Tensor], batch_size: int) -> None:
        """One attribution after the other."""
        for values in given.values():
            self.curves(values, batch_size)


def ours(problem: verax.Problem, given: dict[str, Tensor]) -> Any:
    steps = problem.inputs.shape[1]  # one token at a time, however long the text
    metrics = [verax.metrics.Insertion(steps), verax.metrics.Deletion(steps)]
    anew = problem.with_model(problem.scorer)  # whose unperturbed rows are scored in the call
    return verax.evaluate(anew, given, metrics)


def largest_difference(peer: Interpreto, problem: verax.Problem, given: dict[str, Tensor]) -> float:
    """Between all curves and areas of both."""
    found = ours(problem, given)
    curves = verax.metrics.PredictionChange(steps=problem.inputs.shape[1])(problem, given)
    worst = 0.0
    for name, values in given.items():
        theirs = peer.curves(values, 64)
        for metric in ("insertion", "deletion"):
            area, scores = theirs[metric]
            worst = max(worst, abs(area - float(found[metric].value[name].mean())))
            for row, score in enumerate(scores):
                own = curves.lerf[name][row] if metric == "insertion" else curves.morf[name][row]
                own = own[: len(score)].flip(0) if metric == "insertion" else own[: len(score)]
                worst = max(worst, float((own - score).abs().max()))
    return worst


class Watch:
    """What a model is called with and how long it takes, by the name of who calls it."""

    def __init__(self, model: Any, device: str) -> None:
        self.device, self.seen, self.seconds = device, dict[str, list[dict[str, Tensor]]](), dict[str, list[float]]()
        self.clock = time.process_time if device == "cpu" else time.perf_counter
        self._now: list[dict[str, Tensor]] = []
        self.hook = model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self._now.append({name: value for name, value in kwargs.items() if isinstance(value, Tensor)})

    def watched(self, name: str, work: Callable[[], object]) -> Callable[[], object]:
        """The same work, done when it returns: a GPU is waited for."""

        def whole() -> None:
            self._now = self.seen[name] = []
            start = self.clock()
            work()
            if self.device == "cuda":
                torch.cuda.synchronize()
            self.seconds.setdefault(name, []).append(self.clock() - start)

        return whole

    def counts(self) -> dict[str, dict[str, int]]:
        """Calls, rows, tokens of texts, and places, padding among them."""
        return {
            name: {
                "calls": len(seen),
                "rows": sum(len(one["input_ids"]) for one in seen),
                "tokens": sum(int(one["attention_mask"].sum()) for one in seen),
                "places": sum(one["input_ids"].numel() for one in seen),
            }
            for name, seen in self.seen.items()
        }


def alone(model: Any, given: list[dict[str, Tensor]]) -> None:
    """The model and nothing else, on batches that lie ready."""
    with torch.inference_mode():
        for batch in given:
            model(**batch)


def compared(
    options: argparse.Namespace, peer: Interpreto, problem: verax.Problem, some: dict[str, Tensor]
) -> dict[str, Any]:
    """Times and counts of some attributions."""
    model, watch = peer.model, Watch(peer.model, options.device)
    once = dict(list(some.items())[:1])

    def cases(given: dict[str, Tensor]) -> dict[str, Callable[[], object]]:
        work = {"verax": watch.watched("verax", partial(ours, problem, given))}
        for size in BATCHES:
            name = f"interpreto, batches of {size}"
            work[name] = watch.watched(name, partial(peer.all_curves, given, size))
        return work

    for work in cases(once).values():  # a first, untimed round, of one attribution, for the peer is slow
        work()
    cases(some)["verax"]()
    ready = watch.seen["verax"]
    timed = {**cases(some), "the model alone": watch.watched("the model alone", partial(alone, model, ready))}
    watch.seconds = {}
    common.interleaved(timed, options.repeats)
    watch.hook.remove()
    return {"attributions": len(some), "counts": watch.counts(), "seconds": watch.seconds}


def measured(options: argparse.Namespace, hidden: int, layers: int) -> dict[str, Any]:
    device = options.device
    tokenizer = small_tokenizer(" ".join(WORDS))
    model = trained(tokenizer, device, hidden, layers, steps=5 if options.quick else 100)
    given, _ = texts(3 if options.quick else TEXTS[device], longest=40, seed=0)
    with torch.inference_mode():
        encoded = tokenizer(given, padding=True, return_tensors="pt").to(device)
        target = model(**encoded).logits.argmax(1).cpu()
    problem = classification(model, tokenizer, given, target=target)
    everything = attributions(problem)
    peer = Interpreto(model, tokenizer, given, problem, target)
    difference = largest_difference(peer, problem, everything)
    if difference > SAME[device]:
        raise SystemExit(f"Verax and interpreto disagree by {difference}: no point in comparing their speed.")
    cases = [compared(options, peer, problem, dict(list(everything.items())[:count])) for count in WANTED]
    return {"hidden": hidden, "layers": layers, "texts": len(given), "difference": difference, "cases": cases}


def report(found: dict[str, Any]) -> None:
    rows = []
    for case in found["cases"]:
        for name, times in case["seconds"].items():
            low, middle, high = common.ratios(times, case["seconds"]["verax"])
            label = f"{case['attributions']} attributions, {name}"
            ratio = f"{middle:.1f} ({low:.1f} to {high:.1f})"
            counts = [f"{count:,}" for count in case["counts"][name].values()]
            rows.append((label, f"{median(times):.3f}", *counts, ratio))
    print(f"A BERT of width {found['hidden']} and {found['layers']} layers, {found['texts']} texts\n")
    common.print_table(("case", "seconds", "calls", "rows", "tokens", "with padding", "times Verax"), rows)
    print(f"\nLargest difference between curves: {found['difference']:.1e}")
    for case in found["cases"]:
        ratio = common.ratios(case["seconds"][f"interpreto, batches of {BATCHES[0]}"], case["seconds"]["verax"])[1]
        wanted = WANTED[case["attributions"]]
        said = f"{common.verdict(ratio >= wanted)}, wanted >= {wanted:.0f}"
        print(f"{case['attributions']} attributions: {ratio:.1f} times as fast ({said})")
    print()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--repeats", type=int, help="timed repeats of each case (default 5, on a GPU 3)")
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=automatic, help="where the model runs")
    options = parser.parse_args()
    options.repeats = options.repeats or (3 if options.device == "cuda" else 5)
    return options


def main() -> None:
    options = arguments()
    torch.set_num_threads(1 if options.device == "cpu" else torch.get_num_threads())
    torch.set_float32_matmul_precision("highest")  # single precision for both
    name = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    common.print_header(f"Insertion and Deletion of token attributions ({name})")
    found = []
    for size in SIZES[options.device]:
        found.append(measured(options, *size))
        report(found[-1])
    file = "text" if options.device == "cpu" else "text-gpu"
    print(common.write_results(file, options, device=name, models=found))


if __name__ == "__main__":
    main()
