"""The commands ``verax check freeze`` and ``verax check run``, and ``verax verify`` of the page of a check."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from verax.cli import common
from verax.core.registry import load_plugins

NOT_PASSED = {"passed": 0, "failed": 4, "undecided": 5}  # the exit codes that CI looks for
_COMMANDS = ("freeze", "run")

_FREEZE, _RUN = "verax check freeze check.toml", "verax check run check.toml"
FREEZE = common.examples(f"{_FREEZE}      # before the numbers are seen")
RUN = common.examples(f"{_RUN}     # writes check.html and check.xml beside it", f"{_RUN} --workers 4 --json")
EXAMPLES = common.examples(_FREEZE, _RUN, "verax verify check.html      # computes all of it again and compares")

CheckPath = Annotated[Path, typer.Argument(metavar="FILE", help="A .toml file: what is checked, on what, and why.")]


class RunByDefault(TyperGroup):
    """Reads ``verax check FILE`` as ``verax check run FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0].startswith("-") or args[0] in _COMMANDS or not args[0].endswith(".toml")
        return super().parse_args(ctx, args if named else ["run", *args])


check_app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Check an explanation against requirements that were stated before: passed, failed or undecided.",
    epilog=EXAMPLES,
)


@check_app.command("freeze", epilog=FREEZE)
def freeze(
    file: CheckPath,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lock as JSON.")] = False,
) -> None:
    """Write the hash of everything that decides about the result into FILE.lock, before the numbers are seen.

    The check file, the model, all data and attributions, and code of your own: a changed byte of any of them shows.
    Keep the lock where others see its date, such as in version control.
    """
    with common.one_line_errors(imports):
        from verax.checking import files

        check = files.CheckFile.read(file)
        lock = files.freeze(check, imports or ())
    text = f"Frozen: {len(lock['files'])} files, hash {lock['hash']}"
    common.show(lock, text, as_json=as_json, written=[files.lock_path(check)])


@check_app.command("run", epilog=RUN)
def run(
    file: CheckPath,
    report: Annotated[Path | None, typer.Option(help="The page, an .html file; beside FILE by default.")] = None,
    junit: Annotated[Path | None, typer.Option(help="JUnit's XML, for CI; beside FILE by default.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that measure; the result is the same.")] = 1,
    changed: Annotated[
        bool, typer.Option("--changed", help="Run although something changed since it was frozen; the page says so.")
    ] = False,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a check: one line per requirement, a page and JUnit's XML.

    Exit status 0: passed, 4: a requirement failed, 5: one is undecided and none failed, 2: it cannot be run.
    """
    with common.one_line_errors(imports):
        from verax.checking import files, record
        from verax.checking.files import run_file

        check = files.CheckFile.read(file)
        page, tests = report or file.with_suffix(".html"), junit or file.with_suffix(".xml")
        taken = [file, *check.files.values()]
        common.check_file("--report", page, ".html", taken)
        common.check_file("--junit", tests, ".xml", taken)
        frozen = _check_frozen(check, imports or [], changed)
        result = run_file(check, workers)
        from verax.report.result_pages import check_page

        kept = record.record_of(check, result, page, imports or ())
        content = record.sealed_page(check_page(result, kept))
        common.write_together({page: content, tests: result.junit(f"verax check {file.name}")})
    lines = [str(requirement) for requirement in result.requirements]
    text = "\n".join([*lines, f"{result.outcome}: {file}, {result.rows:,} model rows", f"{result.about}."])
    state = {name: kept[name] for name in ("frozen", "changed", "hashes", "versions", "date")}
    common.show(result.to_dict() | state, text, as_json=as_json, written=[page, tests])
    if not frozen:
        common.tell(f"verax: {file} is not frozen, and the page says so; verax check freeze {file} does it.")
    raise typer.Exit(NOT_PASSED[result.outcome])


def _check_frozen(check: Any, imports: list[str], allowed: bool) -> bool:
    """Raise where something changed since the check was frozen; whether it ever was."""
    from verax.checking import files

    lock = files.read_lock(check)
    if lock is None:
        return False
    different = files.changes(lock["files"], files.hashes(check, imports))
    if different and not allowed:
        raise ValueError(
            f"{check.path}: changed since it was frozen on {lock['frozen']}: {', '.join(different)}. Freeze it again, "
            "or run it with --changed, which the page says."
        )
    return True


def verify_page(page: Path, as_json: bool, imports: list[str]) -> bool:
    """Compute the check of a page again and compare; whether all agrees."""
    from verax.checking import files, record
    from verax.checking.files import run_file

    kept = record.read_record(page)
    load_plugins([*kept["imports"], *imports])
    check = files.CheckFile.read(page.parent / kept["folder"] / kept["check"])
    again = run_file(check)
    different, exact = record.differences(kept, again, files.hashes(check, kept["imports"]))
    how = "bit for bit" if exact else "within tolerance, because versions differ"
    agrees = "DIFFERS" if different else "agrees"
    text = f"{agrees}: {len(kept['lines'])} lines of {page.name}, compared {how}"
    facts = {"passed": not different, "different": different, "bitwise": exact, "lines": len(kept["lines"])}
    common.show(facts, "\n".join([*different, text]), as_json=as_json)
    return not different
