"""From a finished study to its report."""

from pathlib import Path

from verax.analysis.claims import Claim, as_markdown
from verax.analysis.readings import Readings
from verax.core.files import write_atomically
from verax.core.packages import optional_package
from verax.study.model_quality import weak_models
from verax.study.results import Results, read_results
from verax.study.store import StoreError
from verax.study.study import Study


def need_study_extra() -> None:
    """Say what is not installed of what a study needs, before any work."""
    for module in ("altair", "vl_convert", "skimage", "PIL", "tomli_w", "filelock"):
        optional_package(module, "verax[study]", "a study")


def write_study_report(study: Study, results: Results | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` into a study's directory.

    For the paper's models also ``claims.md``, and ``claims-by-reading.csv``: the claims under each reading measured.
    """
    need_study_extra()
    from verax.report.page import page  # noqa: PLC0415  # needs packages of an extra
    from verax.report.paper import draw_figures  # noqa: PLC0415
    from verax.report.view import View  # noqa: PLC0415

    results = results or read_results(study)
    if results.tables.scores.is_empty():
        raise StoreError(f"{study.store.folder}: no finished unit yet, so there is nothing to report.")
    folder = study.store.folder
    view = View(results.tables, results.examples)
    draw_figures(folder / "figures", view)
    if view.all_claims:
        _write_claims(folder, view.all_claims, view.readings)
    path = folder / "report.html"
    write_atomically(path, page(view, provenance(study, results)).encode())
    return path


def _write_claims(folder: Path, claims: list[Claim], readings: Readings | None) -> None:
    text = as_markdown(claims)
    if readings is not None:
        text += f"\nUnder each reading that the study measured:\n\n{readings.as_markdown()}"
        write_atomically(folder / "claims-by-reading.csv", readings.to_frame().write_csv().encode())
    write_atomically(folder / "claims.md", text.encode())


def provenance(study: Study, results: Results) -> dict[str, str]:
    """Where everything came from, in words."""
    facts = study.store.frozen().facts
    lines = {"study": study.spec.name}
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
