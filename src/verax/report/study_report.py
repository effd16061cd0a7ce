"""From a finished study to its report."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verax.core.engine import Processes, ThisProcess
from verax.core.files import write_atomically
from verax.core.packages import optional_package
from verax.study.results import Results, read_results, weak_models
from verax.study.store import StoreError
from verax.study.study import Study
from verax.study.tables import Example


def need_study_extra() -> None:
    """Say what is not installed of what a study needs, before any work."""
    for module in ("altair", "vl_convert", "skimage", "PIL", "tomli_w", "filelock"):
        optional_package(module, "verax[study]", "a study")


def write_study_report(study: Study, results: Results | None = None, *, workers: int = 1) -> Path:
    """Write ``report.html``, figures and, for the paper's models, claims; of several ``workers`` one draws."""
    need_study_extra()
    from verax.report.page import draw_figures, page, vega  # noqa: PLC0415  # needs packages of an extra
    from verax.report.view import View  # noqa: PLC0415

    folder = study.store.folder
    figures = folder / "figures"
    with ThreadPoolExecutor(1) as beside:
        beside.submit(vega)  # a second or two without Python's lock
        results = results or read_results(study)
    if results.tables.scores.is_empty():
        raise StoreError(f"{folder}: no finished unit yet, so there is nothing to report.")
    view = View(results.tables, results.examples)
    with Processes([_draw_examples]) if workers > 1 else ThisProcess(_draw_examples) as engine:
        drawing = engine.run([(figures, view.examples)], name=lambda task: f"figures in {folder}")
        draw_figures(figures, view)
        if view.paper is not None:
            view.paper.save_report(folder)
        path = folder / "report.html"
        write_atomically(path, page(view, provenance(study, results)).encode())
        list(drawing)
    return path


def _draw_examples(task: tuple[Path, Sequence[Example]], tell: object) -> None:
    from verax.report.page import draw_examples  # noqa: PLC0415  # needs packages of an extra

    draw_examples(*task)


def provenance(study: Study, results: Results) -> dict[str, str]:
    """Where everything came from, in words."""
    facts = study.store.frozen().facts
    lines = {"study": study.spec.name}
    if "begun" in facts:  # studies of earlier versions do not say it
        lines["begun"] = str(facts["begun"])
    lines |= {f"version of {name}": str(value) for name, value in facts["versions"].items()}
    lines |= {f"data {data['name']}": f"fingerprint {data['fingerprint']}" for data in facts["data"]}
    lines |= {f"model {model['name']}": f"weights {model['weights']}" for model in facts["models"]}
    lines["units"] = str(len(study.units))
    if results.missing:
        lines["incomplete"] = f"{len(results.missing)} of {len(study.units)} units are missing"
    if weak := weak_models(study.models.values()):
        lines["warning"] = " ".join(weak)
    imports = [f"--import {module}" for module in facts.get("imports", [])]
    lines["check it"] = " ".join(("verax verify", study.store.folder.name, *imports))
    return lines
