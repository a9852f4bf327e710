"""`isthmus robots`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from isthmus.hardware.robot import load_robot, robot_names


@dataclass(frozen=True, kw_only=True)
class Robots:
    """List the robots that isthmus knows, or show one in full."""

    name: Annotated[str | None, Positional, arg(metavar="NAME")] = None
    """Robot to show: a name, or the path of a robot.toml."""

    def run(self) -> int:
        """Print the list or the table."""
        from rich.console import Console
        from rich.table import Column, Table

        console = Console()
        if self.name is None:
            for name in robot_names():
                spec = load_robot(name)
                console.print(f"[bold]{name}[/]  {spec.description}; {len(spec.joints)} joints, bus {spec.bus}")
            return 0
        spec = load_robot(self.name)
        has_bus = spec.bus != "none"
        bus = f"bus {spec.bus} at {spec.baudrate} baud" if has_bus else "no bus: this robot is simulated only"
        tip = "" if spec.tip_site is None else f", tip site {spec.tip_site!r}"
        console.print(f"[bold]{spec.name}[/]  {spec.description}\n{bus}{tip}")
        names, ranges = Column("joint", no_wrap=True), Column("range rad", no_wrap=True)  # whole on 80 columns too
        identity = ["id"] if has_bus else []
        table = Table(names, *identity, ranges, "default rad", "speed rad/s", "effort N m", "kp N m/rad")
        for joint in spec.joints:
            table.add_row(
                joint.name,
                *([str(joint.bus_id)] if has_bus else []),
                f"{joint.lower:.3f} .. {joint.upper:.3f}",
                f"{joint.default_pos:.2f}",
                f"{joint.velocity_limit:.1f}",
                f"{joint.effort_limit:.2f}",
                f"{joint.kp:.1f}",
            )
        console.print(table)
        return 0
