"""The commands about studies: run, status, report, claims, and verify."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, complete
from verax.cli.common import check_extra
from verax.core.display import counted
from verax.core.system import available_cores

if TYPE_CHECKING:
    from verax.study.study import Study

RUN = common.examples(
    "verax study run demo                                     # minutes on two cores",
    "verax study run paper-heloc --data heloc.csv --dry-run   # what it would cost",
    "verax study run my-study.toml --out my-study",
    "verax study run paper-isic --data ISIC_FOLDER --limit 128 --device cuda --precision tf32 --compile",
)
ALL = common.examples("verax study run demo", "verax study status demo-study", "verax verify demo-study")
CLAIMS = common.examples(
    "verax study claims paper-heloc-study paper-isic-study",
    "verax study claims paper-heloc-study --runtime runtime_table-heloc.json --out claims.csv",
    "verax study claims paper-heloc-study --out results/heloc  # all tables, as small files",
)
VERIFY = common.examples(
    "verax verify demo-study", "verax verify demo-study --sample 10% --seed 1", "verax verify check.html"
)

study_app = typer.Typer(no_args_is_help=True, help="Compare many explanation methods on a model, in full.", epilog=ALL)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The study's directory.", autocompletion=complete.studies)]
Device = Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=complete.devices)]
Compiled = Annotated[bool, typer.Option("--compile", help="Compile models with torch.compile; pays on a GPU.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


Engine = Literal["local", "ray"]  # where units of work run
Precision = Literal["float32", "tf32", "bfloat16", "float16"]


@study_app.command("run", epilog=RUN)
def run(
    spec: Annotated[
        str, typer.Argument(help="demo, paper-heloc, paper-isic, or a TOML file.", autocompletion=complete.specs)
    ],
    out: Annotated[Path | None, typer.Option(help="The study's directory; NAME-study by default.")] = None,
    data: Annotated[Path | None, typer.Option(help=complete.DATA_HELP)] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Explain only so many inputs of each data set, drawn at random.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="On this machine, or on a Ray cluster.")] = "local",
    device: Device = "cpu",
    precision: Annotated[
        Precision | None, typer.Option(help="On a GPU: how exactly models run; as the spec says by default.")
    ] = None,
    compiled: Compiled = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what it will cost, and stop.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Model rows at once; automatic by default.")] = None,
    address: Annotated[str, typer.Option(help="Ray: local, auto or ray://HOST:PORT.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Units at once on CPUs; one per core by default, on Ray as many as fit.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Ray: cores of each unit.")] = 1,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan or the outcome as JSON.")] = False,
) -> None:
    """Run a study and write its report. Run it again to go on after an interruption."""
    with common.one_line_errors(imports):
        check_extra("verax study", "study")
        if engine == "ray":
            check_extra("--engine ray", "ray")
        from verax.core.ray_engine import Cluster
        from verax.study.explained_models import Machine
        from verax.study.run import plan_study, run_study
        from verax.study.spec import load_spec

        loaded = load_spec(spec, data=data, limit=limit, precision=precision)
        folder = out or Path(f"{loaded.name}-study")
        common.check_folder("--out", folder)
        cluster = Cluster(address, workers, threads) if engine == "ray" else None
        machine = Machine(common.checked_device_name(device), batch_size, compiled)
        local = workers or available_cores() if machine.device == "cpu" else 1  # one on a GPU
        processes = workers or 1 if engine == "ray" else local
        if dry_run:
            plan = plan_study(loaded, folder, machine, processes)
            common.show(plan.facts() | {"folder": str(folder)}, "\n".join(plan.lines()), as_json=as_json)
            return
        stopped = f"What was finished is stored in {folder}; run it again to go on."
        with common.one_line_errors(stopped=stopped), _cleanup_if_not_started(folder):
            finished = run_study(loaded, folder, machine=machine, cluster=cluster, workers=processes, log=common.tell)
    facts = {"study": loaded.name, "folder": str(folder), "computed": finished.computed, "report": str(finished.report)}
    text = f"{counted(finished.computed, 'unit')} computed. Report: {finished.report.absolute().as_uri()}"
    common.show(facts, text, as_json=as_json)


@study_app.command("status", epilog=common.examples("verax study status demo-study"))
def status(folder: Folder, imports: common.Imports = None, as_json: AsJson = False) -> None:
    """Say how far a study is, and whether all of its files are whole."""
    with common.one_line_errors(imports):
        check_extra("verax study", "study")
        from verax.study.study import open_study

        facts = _status(open_study(folder))
    kept, most = (facts[name] / 2**20 for name in ("attribution_bytes", "attribution_bytes_at_most"))
    lines = [
        f"{facts['study']}: {facts['finished']} of {facts['units']} units, {facts['seconds']:.0f} s so far",
        *(f"  {model['name']}: {model['finished']} of {model['units']} units" for model in facts["models"]),
        f"attributions kept: {kept:.0f} MiB of at most {most:.0f}",
        *(f"{entry['file']}: {entry['reason']}; the next run sets it aside" for entry in facts["strange"]),
    ]
    common.show(facts, "\n".join(lines), as_json=as_json)


@study_app.command("report", epilog=common.examples("verax study report demo-study"))
def report(folder: Folder, imports: common.Imports = None, as_json: AsJson = False) -> None:
    """Write the report of what is finished.

    It goes into the study's directory: report.html, figures/*.svg, claims.md and claims-by-reading.csv.
    """
    with common.one_line_errors(imports):
        check_extra("verax study", "study")
        from verax.report.page import write_study_report
        from verax.study.study import open_study

        study = open_study(folder)
        common.check_folder("DIR", folder)
        path = write_study_report(study)
    facts = {"study": study.spec.name, "report": str(path)}
    common.show(facts, f"Report: {path.absolute().as_uri()}", as_json=as_json)


@study_app.command("claims", epilog=CLAIMS)
def claims(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="The studies' directories.", autocompletion=complete.studies)
    ],
    runtime: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A table of benchmarks/runtime_table.py, for claims about seconds."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write them to this file, .md, .csv or .json, or a folder: all tables."),
    ] = None,
    imports: common.Imports = None,
    as_json: AsJson = False,
) -> None:
    """Answer the paper's claims over the models of one study or of several together.

    Each is reproduced, not reproduced, cannot be told (the interval holds both), or not measured by the studies given.
    A file runtime.json in a study's directory is read as if it were given with --runtime. Into a folder (a name without
    an ending) go the claims, also under each reading, and small tables of what decided them: means and standard errors
    of each configuration, rank agreement with ties and Pareto sets, the models' quality.
    """
    with common.one_line_errors(imports):
        check_extra("verax study", "study")
        from verax.paper.answered import ENDINGS, answer_claims
        from verax.paper.claims import SYMBOLS, as_frame

        file = out if out is not None and out.suffix.lower() in ENDINGS else None
        if file is not None:
            common.check_file("--out", file, file.suffix.lower(), runtime or [])
        elif out is not None and out.suffix and not out.is_dir():
            raise ValueError(f"--out: expected a file name that ends in {', '.join(ENDINGS)}, or a folder, got {out}.")
        elif out is not None:
            common.check_folder("--out", out)
        answered = answer_claims(folders, runtime or [])
        written = [] if out is None or file is not None else answered.save_all(out)
        if file is not None:
            answered.save(file)
            written = [file]
    if written:
        verdicts = Counter(str(claim.verdict) for claim in answered.claims)
        text = ", ".join(f"{verdicts[name]} {name}" for name in SYMBOLS)
    else:
        text = "\n".join(
            f"{claim.number or '':>2} {SYMBOLS[claim.verdict]} {claim.model}: {claim.claim}: {claim.ours} "
            f"(paper: {claim.paper}){f'. {claim.note}' if claim.verdict == 'not measured' else ''}"
            for claim in answered.claims
        )
    common.show({"claims": as_frame(answered.claims).to_dicts()}, text, as_json=as_json, written=written)


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A study's directory, or the page of a check.", autocompletion=complete.studies
        ),
    ],
    sample: Annotated[str, typer.Option(help="Share of the units to compute again, at least one.")] = "1%",
    device: Device = "cpu",
    compiled: Compiled = False,
    seed: Annotated[int, typer.Option(help="Another seed takes another sample.")] = 0,
    imports: common.Imports = None,
    as_json: AsJson = False,
) -> None:
    """Compute a random sample of a study again and compare; of the page of a check, all of it.

    Exit status 0: all agrees, 1: not, 2: cannot be done.
    """
    with common.one_line_errors(imports):
        if folder.suffix.lower() == ".html":
            from verax.cli.check import verify_page

            raise typer.Exit(0 if verify_page(folder, as_json, imports or []) else common.FAILED)
        check_extra("verax study", "study")
        from verax.study.explained_models import Machine
        from verax.study.study import open_study
        from verax.study.verify import verify as recompute
        from verax.study.verify import write_verdict

        study = open_study(folder)
        common.check_folder("DIR", folder)
        machine = Machine(common.checked_device_name(device), compile=compiled)
        verdict = recompute(study, _share(sample), machine, seed, lambda unit: common.tell(f"computing {unit}"))
        write_verdict(study.store, verdict)
    how = "bit for bit" if verdict.bitwise else "within tolerance, because device or versions differ"
    outcome = (
        f"{'agrees' if verdict.passed else 'DIFFERS'}: {verdict.values:,} values of {verdict.sampled} out of "
        f"{verdict.units} units, compared {how}"
    )
    facts = asdict(verdict) | {"passed": verdict.passed}
    common.show(facts, "\n".join([*verdict.different, outcome]), as_json=as_json)
    raise typer.Exit(0 if verdict.passed else common.FAILED)


def _status(study: "Study") -> dict[str, Any]:
    from verax.study.store import read_facts

    contents = study.store.contents("scores", study.stems)
    units = Counter(unit.model for unit in study.units)
    finished = Counter(unit.model for unit in study.units if unit.stem in contents.files)
    kinds = ("uncertainty", "trust", "examples", "attributions")
    strange = contents.strange + [entry for kind in kinds for entry in study.store.contents(kind).strange]
    cache = study.store.cache(study.spec.cache_gib)
    return {
        "study": study.spec.name,
        "finished": finished.total(),
        "units": len(study.units),
        "seconds": sum(read_facts(path)["seconds"] for path in contents.files.values()),
        "models": [{"name": name, "finished": finished[name], "units": units[name]} for name in study.models],
        "attribution_bytes": cache.size(),
        "attribution_bytes_at_most": cache.limit,
        "strange": [{"file": f"{path.parent.name}/{path.name}", "reason": reason} for path, reason in strange],
    }


@contextlib.contextmanager
def _cleanup_if_not_started(folder: Path) -> Iterator[None]:
    """Where a study could not begin, and its lock is all that was written, remove the lock and the folders made."""
    from verax.study.store import Store, StoreError

    made = [path for path in (folder, *folder.parents) if not path.exists()]
    before = set() if made else set(folder.iterdir())
    try:
        yield
    finally:
        if folder.is_dir() and set(folder.iterdir()) - before == {folder / ".lock"}:
            with contextlib.suppress(StoreError, OSError):  # unless another run has begun here
                with Store(folder).lock():
                    (folder / ".lock").unlink()
                for path in made:
                    path.rmdir()


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f"--sample: expected a share such as 1% or 0.01, got {text!r}.")
    return share
