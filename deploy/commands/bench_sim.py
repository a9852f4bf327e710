"""`isthmus bench sim`."""

from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from isthmus.hardware.structure import write_json

from .bench_speed import Setting, Speed, growth, in_turn


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the figures were measured on."""

    processor: str
    cores: int  # that this process may use
    python: str
    mujoco: str
    torch: str


@dataclass(frozen=True, kw_only=True)
class SimTable:
    """The whole bench."""

    machine: Machine
    rows: tuple[Speed, ...]


@dataclass(frozen=True, kw_only=True)
class BenchSim:
    """Measure the simulator: speed of the whole environment against the bare engine, memory, and how both scale.

    The engine alone steps the very states and controls that the environment went through while it acted at random, in the same
    process and in turns with it.
    """

    out: Path = Path("runs/bench-sim")
    """Directory for sim.json and sim.png."""
    tasks: tuple[str, ...] = ("go2-velocity", "so101-reach")
    """What the robots do."""
    num_envs: int = 1024
    """Environments at which the two are compared."""
    sizes: tuple[int, ...] = (16, 64, 256, 1024, 4096, 8192)
    """Numbers of environments, for the scaling."""
    engine: str = "mujoco"
    """Physics engine: mujoco or genesis."""
    repeats: int = 12
    """Blocks of each kind."""
    ticks: int = 10
    """Control ticks of a block at --num-envs; smaller worlds do more, larger ones fewer."""
    seed: int = 0
    """Of everything random."""

    def run(self) -> int:
        """Measure, print the table, write it."""
        from rich.console import Console

        from isthmus.sim.tasks import get_task

        from .checks import OptionError, check_folder

        self._check()
        for task in self.tasks:
            get_task(task)  # said now, not after minutes
        self._check_memory()
        check_folder("--out", self.out)
        console, settings = Console(), self._settings()
        rows: list[Speed] = []
        try:
            for speed in in_turn(settings, console):
                rows.append(speed)
                write_json(self.out / "sim.json", SimTable(machine=this_machine(), rows=tuple(rows)))
        except BrokenProcessPool:
            lost = settings[len(rows)]
            raise OptionError(
                f"--sizes: the process that measured {lost.task} x {lost.num_envs} was killed, most likely because memory"
                " ran out; give smaller numbers"
            ) from None
        (self.out / "sim.png").write_bytes(scaling_png(rows))
        _print_table(rows, console)
        self._conclude(rows, console)
        return 0

    def _check(self) -> None:
        from isthmus.sim.engines import ENGINES

        from .checks import OptionError, check_range

        check_range("--num-envs", self.num_envs, 1)
        check_range("--sizes", min(self.sizes, default=self.num_envs), 1)
        check_range("--repeats", self.repeats, 1)
        check_range("--ticks", self.ticks, 1)
        check_range("--seed", self.seed, 0)
        if self.engine not in ENGINES:
            raise OptionError(f"--engine is {self.engine!r}, expected one of {', '.join(ENGINES)}")

    def _check_memory(self) -> None:
        """Refuse sizes that memory cannot hold, before the smaller ones take their time."""
        from isthmus.policies.learning.recipe import TrainConfig
        from isthmus.policies.learning.run_memory import check_run_memory

        from .checks import option_for_memory

        for option, count in (("--num-envs", self.num_envs), ("--sizes", max(self.sizes, default=1))):
            for task in self.tasks:
                with option_for_memory(option, count):
                    config = TrainConfig(task=task, seed=self.seed, num_envs=count, engine=self.engine)
                    check_run_memory(config, training=False)

    def _settings(self) -> list[Setting]:
        return [
            Setting(
                task=task,
                engine=self.engine,
                num_envs=count,
                repeats=self.repeats,
                ticks=max(2, min(40 * self.ticks, round(self.ticks * self.num_envs / count))),
                seed=self.seed,
            )
            for task in self.tasks
            for count in sorted({self.num_envs, *self.sizes})
        ]

    def _conclude(self, rows: list[Speed], console) -> None:  # noqa: ANN001
        for row in rows:
            if row.num_envs == self.num_envs:
                console.print(
                    f"{row.task}: {row.env.median:,.0f} of {row.bare.median:,.0f} environment steps/s, "
                    f"{row.ratio.median:.3f} of the engine alone"
                )
        console.print(f"wrote {self.out / 'sim.json'} and {self.out / 'sim.png'}")


def this_machine() -> Machine:
    """The machine and libraries at hand."""
    import importlib.metadata
    import platform

    from isthmus.policies.learning.threads import available_cores

    return Machine(
        processor=_processor() or platform.machine(),
        cores=available_cores(),
        python=platform.python_version(),
        mujoco=importlib.metadata.version("mujoco"),
        torch=importlib.metadata.version("torch"),
    )


def _processor() -> str:
    """The CPU's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _print_table(rows: list[Speed], console) -> None:  # noqa: ANN001
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "task", "environments", "engine alone, steps/s", "environment, steps/s", "ratio", "memory MB",
        "more per environment kB", "engine state kB", "its own model kB",
        title="environment steps (control ticks) per second: median (quartiles)",
    )  # fmt: skip
    for row, more in zip(rows, growth(rows), strict=True):
        table.add_row(
            row.task,
            str(row.num_envs),
            *(f"{q.median:,.0f} ({q.low:,.0f}-{q.high:,.0f})" for q in (row.bare, row.env)),
            f"{row.ratio.median:.3f} ({row.ratio.low:.3f}-{row.ratio.high:.3f})",
            f"{row.memory_bytes / 1e6:.0f}",
            *("" if value is None else f"{value / 1e3:.1f}" for value in (more, row.state_bytes, row.model_bytes)),
        )
    Console(width=max(console.width, 170)).print(table)


def scaling_png(rows: list[Speed]) -> bytes:
    """Speed and memory over the number of environments; PNG."""
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    speed, memory = figure.subplots(1, 2)
    for index, task in enumerate(dict.fromkeys(row.task for row in rows)):
        own = [row for row in rows if row.task == task]
        sizes, color = [row.num_envs for row in own], f"C{index}"
        speed.plot(sizes, [row.bare.median for row in own], "o--", color=color, label=f"{task}, engine alone")
        speed.plot(sizes, [row.env.median for row in own], "o-", color=color, label=f"{task}, environment")
        speed.fill_between(sizes, [row.env.low for row in own], [row.env.high for row in own], color=color, alpha=0.2)
        memory.plot(sizes, [row.memory_bytes / 1e6 for row in own], "o-", color=color, label=task)
    for axis, what in ((speed, "environment steps/s"), (memory, "memory of the process, MB")):
        sizes = sorted({row.num_envs for row in rows})
        axis.set(xlabel="environments", ylabel=what, xscale="log")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
