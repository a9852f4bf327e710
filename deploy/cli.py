"""The `isthmus` command."""

import sys
from typing import Annotated

import tyro
from tyro.conf import OmitArgPrefixes, subcommand

from isthmus.hardware.errors import IsthmusError

from .commands.bench import Bench
from .commands.calibrate import Calibrate
from .commands.correct import Correct
from .commands.demo import Demo
from .commands.export import Export
from .commands.learn import Learn
from .commands.report import Report
from .commands.robots import Robots
from .commands.run import Run
from .commands.train import Train
from .commands.virtual import Virtual

DESCRIPTION = "From simulated training to a real robot, and back through human corrections."

Command = (
    Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Export, subcommand("export", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[Calibrate, subcommand("calibrate", prefix_name=False)]
    | Annotated[Correct, subcommand("correct", prefix_name=False)]
    | Annotated[Learn, subcommand("learn", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Demo, subcommand("demo", prefix_name=False)]
    | Annotated[Robots, subcommand("robots", prefix_name=False)]
    | Annotated[Virtual, subcommand("virtual", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; exits with 0 when it did what was asked, 2 with the cause on stderr when not."""
    command = tyro.cli(Command, prog="isthmus", description=DESCRIPTION, args=arguments, config=(OmitArgPrefixes,))
    try:
        code = command.run()
    except IsthmusError as error:
        print(f"isthmus: {error}", file=sys.stderr)
        code = 2
    except ModuleNotFoundError as error:
        print(
            f"isthmus: this command needs {error.name}; install it with: pip install 'isthmus[train]'", file=sys.stderr
        )
        code = 2
    except OSError as error:  # a disk that filled up, a file that went away: commands check what they can beforehand
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"isthmus: {where}{error.strerror or error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("isthmus: interrupted; what was written so far is kept", file=sys.stderr)
        code = 130
    sys.exit(code)
