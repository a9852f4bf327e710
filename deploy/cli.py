"""The `isthmus` command."""

import importlib.metadata
import os
import signal
import sys
from typing import Annotated, get_args

import tyro
from tyro.conf import OmitArgPrefixes, subcommand

from isthmus.hardware.errors import IsthmusError

from .commands.bench_c import BenchC
from .commands.bench_gap import BenchGap
from .commands.bench_learn import BenchLearn
from .commands.bench_loop import BenchLoop
from .commands.bench_peers import BenchPeers
from .commands.bench_policy import BenchPolicy
from .commands.bench_sim import BenchSim
from .commands.bench_train import BenchTrain
from .commands.bundle import BundleDiff, BundleShow, BundleSign, BundleVerify
from .commands.calibrate import Calibrate
from .commands.compare import Compare
from .commands.convert import Convert
from .commands.correct import Correct
from .commands.demo import Demo
from .commands.doctor import Doctor
from .commands.export import Export
from .commands.export_c import ExportC
from .commands.export_flavour import ExportHolosoma, ExportMjlab
from .commands.import_policy import Import
from .commands.learn import Learn
from .commands.play import Play
from .commands.replay import ReplayLog
from .commands.report import Report
from .commands.robots import Robots
from .commands.run import Run
from .commands.tasks import Tasks
from .commands.train import Train
from .commands.virtual import Virtual

LIST_ITEM = "\n  - "  # begins each item of a list in an error
DESCRIPTION = "From simulated training to a real robot, and back through human corrections."

Bench = (
    Annotated[BenchGap, subcommand("gap", prefix_name=False)]
    | Annotated[BenchLoop, subcommand("loop", prefix_name=False)]
    | Annotated[BenchPeers, subcommand("peers", prefix_name=False)]
    | Annotated[BenchSim, subcommand("sim", prefix_name=False)]
    | Annotated[BenchLearn, subcommand("learn", prefix_name=False)]
    | Annotated[BenchTrain, subcommand("train", prefix_name=False)]
    | Annotated[BenchC, subcommand("c", prefix_name=False)]
    | Annotated[BenchPolicy, subcommand("policy", prefix_name=False)]
)

Exports = (
    Annotated[Export, subcommand("bundle", prefix_name=False)]
    | Annotated[ExportC, subcommand("c", prefix_name=False)]
    | Annotated[ExportMjlab, subcommand("mjlab", prefix_name=False)]
    | Annotated[ExportHolosoma, subcommand("holosoma", prefix_name=False)]
)

Bundles = (
    Annotated[BundleShow, subcommand("show", prefix_name=False)]
    | Annotated[BundleVerify, subcommand("verify", prefix_name=False)]
    | Annotated[BundleDiff, subcommand("diff", prefix_name=False)]
    | Annotated[BundleSign, subcommand("sign", prefix_name=False)]
)

BENCH_NAMES, EXPORT_NAMES, BUNDLE_NAMES = (
    tuple(get_args(annotated)[1].name for annotated in get_args(group)) for group in (Bench, Exports, Bundles)
)

Command = (
    Annotated[Tasks, subcommand("tasks", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Play, subcommand("play", prefix_name=False)]
    | Annotated[
        Exports,
        subcommand(
            "export",
            prefix_name=False,
            description="Write a trained policy as one bundle (`export DIRECTORY`), or a bundle as C99 or another tool's file.",
        ),
    ]
    | Annotated[Import, subcommand("import", prefix_name=False)]
    | Annotated[
        Bundles,
        subcommand("bundle", prefix_name=False, description="Look at a bundle, check it, compare two, sign one."),
    ]
    | Annotated[Doctor, subcommand("doctor", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[ReplayLog, subcommand("replay", prefix_name=False)]
    | Annotated[Convert, subcommand("convert", prefix_name=False)]
    | Annotated[Calibrate, subcommand("calibrate", prefix_name=False)]
    | Annotated[Correct, subcommand("correct", prefix_name=False)]
    | Annotated[Learn, subcommand("learn", prefix_name=False)]
    | Annotated[Compare, subcommand("compare", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Demo, subcommand("demo", prefix_name=False)]
    | Annotated[Robots, subcommand("robots", prefix_name=False)]
    | Annotated[Virtual, subcommand("virtual", prefix_name=False)]
    | Annotated[
        Bench,
        subcommand(
            "bench",
            prefix_name=False,
            description="Measure: what the loop from simulation to robot closes of the gap, the real-time loop, alone and beside others, "
            "the simulator, learning, training, a policy's tick, policies in C.",
        ),
    ]
)

_EXTRAS = {"rerun": "viewer", "evdev": "operators"}  # which extra brings a module; all others come with train

COMMAND_NAMES = tuple(get_args(annotated)[1].name for annotated in get_args(Command))


def main(arguments: list[str] | None = None) -> None:
    """Run a command; exits with 0 when it did what was asked, 1 where the answer is no, 2 with the cause on stderr when it could not."""
    if arguments is None:  # told to end by the system: as orderly as by Ctrl-C
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    words = sys.argv[1:] if arguments is None else arguments
    if words == ["--version"]:
        print(f"isthmus {importlib.metadata.version('isthmus')}")
        sys.exit(0)
    words = words or ["--help"]
    if words[0] == "bench" and words[1:2] not in ([name] for name in (*BENCH_NAMES, "--help", "-h")):
        words = ["bench", "gap", *words[1:]]
    if words[0] == "export" and words[1:2] not in ([name] for name in EXPORT_NAMES):
        words = ["export", "bundle", *words[1:]]  # a directory of this name is `./c`
    try:
        command = tyro.cli(Command, prog="isthmus", description=DESCRIPTION, args=words, config=(OmitArgPrefixes,))
        code = command.run()
    except IsthmusError as error:
        code = _fail(str(error))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0], "train")
        code = _fail(f"this command needs {error.name}; install it with: pip install 'isthmus[{extra}]'")
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    except OSError as error:  # a disk that filled up, a file that went away: what could be checked beforehand was
        where = "" if error.filename is None else f"{error.filename}: "
        code = _fail(f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        code = _fail("interrupted; what was written so far is kept", code=130)
    sys.exit(code)


def _fail(text: str, *, code: int = 2) -> int:
    """Say it, in as few lines as it needs: other libraries break theirs anywhere, a list keeps one line for each."""
    items = [" ".join(item.split()) for item in text.split(LIST_ITEM)]
    print(f"isthmus: {LIST_ITEM.join(items)}", file=sys.stderr)
    return code
