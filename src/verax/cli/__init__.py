"""The command line. Commands load what they need when they run; a wrong argument is one line and exit code 2."""

from typing import Annotated

import typer

from verax.cli import audit, check, doctor, evaluate, lake, monitor, study, train, tune
from verax.cli.common import EXIT_CODES, PLAIN, Commands, examples
from verax.core.packages import __version__

START = examples(
    "verax doctor                     # is everything there?",
    "verax study run demo             # a whole study in minutes, with a report",
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy lime.npy",
    "verax audit --model m.onnx --inputs x.parquet     # which metric can be trusted here?",
    "verax --install-completion       # complete commands and names with TAB",
)

app = typer.Typer(
    name="verax",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text, without escape codes wherever it goes
    context_settings=PLAIN,
    epilog=f"{START}\n\n{EXIT_CODES}",
)
app.command("evaluate", cls=evaluate.SeveralPaths, epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("tune", epilog=tune.EXAMPLES)(tune.tune)
app.command("audit", cls=evaluate.SeveralPaths, epilog=audit.EXAMPLES)(audit.audit)
app.add_typer(check.check_app, name="check")
app.command("monitor", cls=evaluate.SeveralPaths, epilog=monitor.EXAMPLES)(monitor.monitor)
app.command("lake", cls=evaluate.SeveralPaths, epilog=lake.EXAMPLES)(lake.lake)
app.add_typer(study.study_app, name="study")
app.command("verify", epilog=study.VERIFY)(study.verify)
app.command("train", epilog=train.EXAMPLES)(train.train)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"verax {__version__}")
        raise typer.Exit
    return show


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Measure how faithful feature attributions are to the model they explain."""
