"""Where the `isthmus` command begins: Ctrl-C ends it quietly even before there is anything to end."""

import os
import signal


def main() -> None:
    """Load the commands and run one."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # nothing was begun yet
    from .cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
