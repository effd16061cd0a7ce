"""The commands about studies: run, status, report, and verify."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from verax.cli_common import checked_device_name, one_line_errors

study_app = typer.Typer(no_args_is_help=True, help="Compare many explanation methods on a model, in full.")


class EngineName(StrEnum):
    """Where units of work run."""

    local = "local"
    ray = "ray"


@study_app.command("run")
def run(
    spec: Annotated[str, typer.Argument(help="demo, paper-heloc, paper-isic, or a TOML file.")],
    out: Annotated[Path | None, typer.Option(help="The study's directory; NAME-study by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="heloc: a CSV file; isic: a folder; file: an .npz file.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Explain only the first inputs of each data set.")] = None,
    engine: Annotated[EngineName, typer.Option(help="In this process, or on a Ray cluster.")] = EngineName.local,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what it will cost, and stop.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Model rows at once; automatic by default.")] = None,
    address: Annotated[str, typer.Option(help="Ray: local, auto or ray://HOST:PORT.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Ray: units at once; as many as fit by default.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Ray: cores of each unit.")] = 1,
) -> None:
    """Run a study and write its report. Run it again to go on after an interruption."""
    with one_line_errors():
        from verax.study.explanations import Machine
        from verax.study.ray_engine import Cluster
        from verax.study.run import plan_study, run_study
        from verax.study.spec import load_spec

        loaded = load_spec(spec, data=data, limit=limit)
        folder = out or Path(f"{loaded.name}-study")
        cluster = Cluster(address, workers, threads) if engine is EngineName.ray else None
        machine = Machine(checked_device_name(device), batch_size)
        if dry_run:
            typer.echo("\n".join(plan_study(loaded, folder, machine)))
            return
        try:
            found = run_study(
                loaded,
                folder,
                machine=machine,
                cluster=cluster,
                log=lambda line: typer.echo(line, err=True),
            )
        except KeyboardInterrupt:
            typer.echo(f"verax: stopped. What was finished is stored in {folder}; run it again to go on.", err=True)
            raise typer.Exit(130) from None
    typer.echo(f"{found.computed} units computed. Report: {found.report.absolute().as_uri()}")


@study_app.command("status")
def status(folder: Annotated[Path, typer.Argument(metavar="DIR", help="The study's directory.")]) -> None:
    """Say how far a study is, and whether all of its files are whole."""
    with one_line_errors():
        from verax.study.store import read_facts
        from verax.study.study import open_study

        study = open_study(folder)
        contents = study.store.contents("scores", [unit.stem for unit in study.units])
        seconds = sum(read_facts(path)["seconds"] for path in contents.found.values())
        typer.echo(f"{study.spec.name}: {len(contents.found)} of {len(study.units)} units, {seconds:.0f} s so far")
        for name in study.subjects:
            own = [unit for unit in study.units if unit.model == name]
            done = sum(unit.stem in contents.found for unit in own)
            typer.echo(f"  {name}: {done} of {len(own)} units")
        cache = study.store.cache(study.spec.cache_gib)
        typer.echo(f"attributions kept: {cache.size() / 2**20:.0f} MiB of at most {cache.limit / 2**20:.0f}")
        others = [
            one for kind in ("uncertainty", "examples", "attributions") for one in study.store.contents(kind).strange
        ]
        for path, reason in (*contents.strange, *others):
            typer.echo(f"{path.parent.name}/{path.name}: {reason}; the next run sets it aside")


@study_app.command("report")
def report(folder: Annotated[Path, typer.Argument(metavar="DIR", help="The study's directory.")]) -> None:
    """Write the report of what is finished."""
    with one_line_errors():
        from verax.study.report import write_study_report
        from verax.study.study import open_study

        path = write_study_report(open_study(folder))
    typer.echo(f"Report: {path.absolute().as_uri()}")


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The study's directory.")],
    sample: Annotated[str, typer.Option(help="Share of the units to compute again, at least one.")] = "1%",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Another seed takes another sample.")] = 0,
) -> None:
    """Compute a random sample of a study again and compare. Exit status 0: all agrees, 1: not, 2: cannot be done."""
    with one_line_errors():
        from verax.study.explanations import Machine
        from verax.study.study import open_study
        from verax.study.verify import verify as recompute
        from verax.study.verify import write_verdict

        study = open_study(folder)
        machine = Machine(checked_device_name(device))
        share = _share(sample)
        verdict = recompute(study, share, machine, seed, lambda unit: typer.echo(f"computing {unit}", err=True))
        write_verdict(study.store, verdict)
    how = "bit for bit" if verdict.bitwise else "within tolerance, because device or versions differ"
    for line in verdict.different:
        typer.echo(line)
    typer.echo(
        f"{'agrees' if verdict.passed else 'DIFFERS'}: {verdict.values:,} values of {verdict.sampled} out of "
        f"{verdict.units} units, compared {how}"
    )
    raise typer.Exit(0 if verdict.passed else 1)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f"--sample: expected a share such as 1% or 0.01, found {text!r}.")
    return share
