"""`isthmus tasks`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from rich.console import Console

    from isthmus.sim.task import Task


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """List the tasks that can be trained, or show one in full: rewards, terminations, randomisation, observation."""

    name: Annotated[str | None, Positional, arg(metavar="NAME")] = None
    """Task to show."""

    def run(self) -> int:
        """Print the list or the task."""
        from rich.console import Console

        from isthmus.sim.tasks import get_task, task_names

        console = Console(highlight=False)
        if self.name is None:
            for name in task_names():
                console.print(f"[bold]{name}[/]\n  {_description(name)}", soft_wrap=True)
            console.print("\nnext: isthmus tasks NAME, or isthmus train --task NAME --out runs/NAME")
            return 0
        _show(get_task(self.name), console)
        return 0


def _description(name: str) -> str:
    """What a task is, or what is wrong with the package that brings it: the others are listed all the same."""
    from rich.markup import escape

    from isthmus.hardware.errors import IsthmusError
    from isthmus.sim.tasks import get_task

    try:
        return escape(get_task(name).description)
    except IsthmusError as error:
        return f"[red]{escape(str(error))}[/]"


def _show(task: "Task", console: "Console") -> None:
    from isthmus.policies.contract import observation_width
    from isthmus.policies.contracts import get_contract

    contract, robot = get_contract(task.name), task.scene().robot
    console.print(
        f"[bold]{task.name}[/]  {task.description}\n"
        f"robot {robot.name} ({len(robot.joints)} joints, {len(robot.rotors)} rotors), {1 / task.period:.0f} Hz control, "
        f"{task.substeps} physics steps of {1000 * task.physics_dt:.1f} ms a tick, episodes of {task.episode_length:.0f} s\n"
        f"command {contract.need_command().signal}; {observation_width(contract)} observations, {len(contract.action.joints)} actions "
        f"({contract.action.kind})\n{_settings(task.name)}",
        soft_wrap=True,
    )
    for table in (_rewards(task), _randomization(task), _observation(task)):
        console.print(table)
    lasts = (
        "lasting to the end"
        if task.success is None
        else f"{_first_line(task.success.function)[:-1]}, for {task.success.hold:g} s"
    )
    console.print(f"success: {lasts}", soft_wrap=True)
    if task.terminations:
        console.print("ends early when: " + ", ".join(term.name for term in task.terminations))
    if task.metrics:
        console.print("metrics: " + ", ".join(f"{metric.name} ({metric.unit})" for metric in task.metrics))


def _settings(name: str) -> str:
    """How `isthmus train` trains the task unless told otherwise."""
    from isthmus.policies.learning.presets import get_preset

    preset = get_preset(name)
    ppo = preset.ppo
    layers = "-".join(map(str, ppo.hidden_dims))
    mirrored = ", mirror images" if ppo.symmetry is not None else ""
    return (
        f"trained by default with {preset.num_envs} robots, {preset.iterations} iterations of {ppo.steps_per_iteration} ticks, "
        f"network {layers}{mirrored}"
    )


def _first_line(function: object) -> str:
    return (getattr(function, "__doc__", None) or "").strip().split("\n")[0]


def _whole(title: str):  # noqa: ANN202
    """A column of names, which are never cut."""
    from rich.table import Column

    return Column(title, no_wrap=True, min_width=len(title))


def _rewards(task: "Task"):  # noqa: ANN202
    from rich.table import Table

    table = Table(_whole("reward"), "per second", "of")
    for term in task.rewards:
        table.add_row(term.name, f"{term.weight:g}", _first_line(term.function))
    return table


def _randomization(task: "Task"):  # noqa: ANN202
    from rich.table import Table

    from isthmus.sim.randomization import parameter_info, parameters_of

    table = Table(_whole("randomised"), "range", "unit", "drawn", "what it is")
    for term in task.randomization:
        low, high = term.distribution.support
        for name in parameters_of(term):
            info = parameter_info(name)
            when = term.when if term.interval_s is None else f"every {term.interval_s:g} s"
            table.add_row(name, f"{low} .. {high} {term.distribution.kind}", info.unit, when, info.description)
    return table


def _observation(task: "Task"):  # noqa: ANN202
    from rich.table import Table

    from isthmus.policies.contract import OBSERVATION_TERMS, term_width
    from isthmus.policies.contracts import get_contract

    contract = get_contract(task.name)
    table = Table(_whole("observation"), "values", "scale", "unit", "what it is")
    for term in contract.observation:
        spec = OBSERVATION_TERMS[term.name]
        history = f", {len(term.lags)} samples" if len(term.lags) > 1 else ""
        table.add_row(
            term.name, str(term_width(term, contract)), f"{term.scale:g}", spec.unit, spec.description + history
        )
    return table
