"""A supervisor for a test to kill: arms, starts an attempt, says so, and waits."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from deploy_fakes import SPEC, reach_policies

from isthmus.deploy.session import Session
from isthmus.hardware.drivers import open_robot
from isthmus.hardware.joint_calibration import ArmCalibration


def main(port: str, log_path: str) -> None:
    robot = partial(open_robot, SPEC, port=port, calibration=ArmCalibration.nominal(SPEC))
    session = Session(SPEC, make_robot=robot, make_policies=reach_policies, log_path=Path(log_path))
    session.arm()
    print(*session.process_ids.values(), flush=True)
    session.run_episode([0.25, 0.1, 0.15], 600.0, referee=lambda: np.ones(3))


if __name__ == "__main__":
    main(*sys.argv[1:])
