"""Commands that put checks to the test."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.common import (
    AsJson,
    Sandbox,
    Units,
    choose_sandbox,
    command,
    find_course,
    out,
    print_json,
    progress_bar,
    say,
)
from autograder.errors import BAD_INPUT, CourseError
from autograder.whole_files import write_whole


@command()
def prove(
    units: Units = None,
    only: Annotated[str | None, typer.Option(metavar="ID", help="Only this exercise.")] = None,
    as_json: AsJson = False,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Try the hostile and broken notebooks instead, and say what came of each.")
    ] = False,
    stock: Annotated[bool, typer.Option("--stock", help="With --hostile: through nbgrader's own `autograde`.")] = False,
    constants: Annotated[
        bool, typer.Option("--constants", help="Try answers that look at nothing instead: none may earn a point.")
    ] = False,
    twins: Annotated[
        bool, typer.Option("--twins", help="Try what students can import instead: none may be an answer.")
    ] = False,
    graded: Annotated[
        bool, typer.Option("--graded", help="Grade right answers instead: each card as in a student's own notebook.")
    ] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Try small changes of right answers instead: none may earn all points.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="COMMIT", help="Compare every card with that commit's, byte for byte, instead."
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", min=1, help="N times over, each with inputs of its own.")
    ] = 1,
    sandbox: Sandbox = None,
) -> None:
    """Put the checks to the test: every misconception must lose points and be named, every right alternative must pass.

    Exit status: 0 all did; 1 one did not."""
    from autograder.cli import tables
    from autograder.proofs import prove as proving

    if hostile:
        _prove_hostile(choose_sandbox(sandbox), stock, as_json)
    course = find_course()
    if against:
        _prove_against(course, against, course.chosen(units or []), only, mutants)
    if constants:
        _prove_constants(course, course.chosen(units or []), as_json)
    if twins:
        _prove_twins(course, course.chosen(units or []), as_json)
    if graded:
        _prove_graded(course, course.chosen(units or []), only, choose_sandbox(sandbox), as_json)
    if mutants:
        _prove_mutants(course, course.chosen(units or []), only, as_json)
    proofs = proving.prove(course, course.chosen(units or []), only, draws)
    misses = [f"{name}: {miss}" for unit in proofs.values() for name, proof in unit.items() for miss in proof.misses]
    if as_json:
        print_json(proving.as_json(proofs))
    else:
        out.print(tables.proofs_table(proofs, proving.totals(proofs)))
        for miss in misses:
            say(miss, "[red]✗[/] ")
    raise typer.Exit(1 if misses else 0)


def _prove_hostile(sandbox: str, stock: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from autograder.cli import tables
    from autograder.proofs.hostile import run_hostile, totals
    from autograder.proofs.hostile_nbgrader import run_through_nbgrader

    rows = []
    with progress_bar() as progress:
        for row in progress.track((run_through_nbgrader if stock else run_hostile)(sandbox), description="Trying"):
            rows.append(row)
    if as_json:
        found = [asdict(row) | {"held": row.held} for row in rows]
        print_json({"notebooks": found, "total": totals(rows)})
    else:
        out.print(tables.hostile_table(rows, totals(rows)))
    raise typer.Exit(0 if all(row.held for row in rows) else 1)


def _prove_constants(course, units: list[str], as_json: bool) -> None:
    from dataclasses import asdict

    from autograder.proofs.trivial_answers import try_trivial_answers

    swept = {name: one for unit in units for name, one in try_trivial_answers(course, [unit])[unit].items()}
    earned = [f"{name}: {line}" for name, one in swept.items() for line in one.earned]
    tried = sum(one.tried for one in swept.values())
    if as_json:
        print_json({name: asdict(one) for name, one in swept.items()})
    else:
        for line in earned:
            say(line, "[red]✗[/] ")
        out.print(f"{tried} constant answers to {len(swept)} exercises: {len(earned)} earned points.")
    raise typer.Exit(1 if earned else 0)


def _prove_twins(course, units: list[str], as_json: bool) -> None:
    from autograder.proofs.twins import twins

    found = {unit: list(twins(course, unit)) for unit in units}
    lines = [f"{unit}: {line}" for unit, every in found.items() for line in every]
    if as_json:
        print_json(found)
    else:
        for line in lines:
            say(line, "[red]✗[/] ")
        out.print(f"{len(units)} units: {len(lines)} functions within reach are answers.")
    raise typer.Exit(1 if lines else 0)


def _prove_graded(course, units: list[str], only: str | None, sandbox: str, as_json: bool) -> None:
    from dataclasses import asdict

    from autograder.judge.kernel_manager import KernelManager
    from autograder.proofs.graded import graded_answers

    found = []
    for unit in units:
        with closing(KernelManager(sandbox)) as kernels:  # the warm processes of all units together take gigabytes
            for one in graded_answers(course, unit, kernels, only):
                found.append(one)
                if one.problem and not as_json:
                    say(f"{one.exercise}, {one.style}: {one.problem}", "[red]✗[/] ")
    other = sum(bool(one.problem) for one in found)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        out.print(f"{len(found)} right answers graded: {other} with another card than in a student's own notebook.")
    raise typer.Exit(1 if other else 0)


def _prove_mutants(course, units: list[str], only: str | None, as_json: bool) -> None:
    from autograder.proofs.mutation_testing import as_json as plain
    from autograder.proofs.mutation_testing import complaints, mutation_test, totals

    tried = {}
    for name, one in mutation_test(course, units, only):
        tried[name] = one
        for line in [] if as_json else complaints(one):
            say(f"{name}: {line}", "[red]✗[/] ")
    if as_json:
        print_json(plain(tried))
    else:
        out.print(", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in totals(tried).items()))
    raise typer.Exit(1 if any(map(complaints, tried.values())) else 0)


def _prove_against(course, commit: str, units: list[str], only: str | None, mutants: bool) -> None:
    from autograder.proofs.compare_commits import differences

    found = differences(course, commit, units, only, mutants)
    for line in found:
        out.print(line, markup=False, soft_wrap=True, highlight=False)
    new = sum(": only now: " in line for line in found)
    out.print(f"against {commit}: {len(found) - new} differences, {new} only now")
    raise typer.Exit(1 if len(found) > new else 0)


@command()
def cards(
    units: Units = None,
    into: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("cards.html"),
) -> None:
    """Write one page with the card of every misconception of every exercise, and a green one of each, to look at."""
    from autograder.proofs import cards as gallery

    course = find_course()
    chosen = course.chosen(units or [])
    with progress_bar() as progress:
        shown = gallery.cards(course, chosen, progress)
    try:
        write_whole(into, gallery.page(shown))
    except OSError as error:
        raise CourseError(f"{into} can't be written: {error.strerror}.", BAD_INPUT) from None
    out.print(f"wrote {len(shown)} cards to {into}", highlight=False)
