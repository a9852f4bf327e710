"""Friction, gain, payload and latency from one joint log, by least squares over batched rollouts.

The log is replayed open loop: the same targets at the same times drive the model, and the parameters are sought for which
the simulated joints move like the measured ones. A servo compares command and reading in the same encoder angles, so an
encoder offset cancels in its loop and enters through gravity alone: offsets are nuisance parameters here, held by their
prior, and are never reported. `touchoff.py` measures them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from isthmus.hardware.robot import RobotSpec

from .excitation import HELD_OUT
from .identified import Identified, JointError
from .log import JointLog, LogError
from .prior import Prior
from .rollout import NOMINAL, PARAMETERS, ServoRollout, Targets
from .uncertainty import BLOCK_S, Linearisation, covariance, estimates, ratio_estimate

MIN_DURATION_S = 8.0
MIN_MOTION_RAD = 0.02  # a joint whose targets spread less says nothing
SETTLE_S = 0.5  # the start of a log is left out: the state before it is not known
DIFFERENCE_STEP = 4e-3  # of a parameter's range, for central differences
OFFSET_STEP = 0.1  # of an offset's prior standard deviation
COARSE_RAD, ROBUST_RAD = (
    0.02,
    0.0015,
)  # residuals beyond this weigh less (soft L1): on the way, and at the end (gear play)
STARTS, REFINED = 31, 2  # random starts beside the nominal model; how many of the best are refined
NOISE_RAD = 0.005  # rad per sample against the offset prior; far above quantisation, because residuals are correlated


@dataclass(frozen=True)
class _Fit:
    """The problem in coordinates u: parameters as a share of their range, offsets in prior standard deviations."""

    rollout: ServoRollout
    log: JointLog
    prior: Prior
    keep: np.ndarray  # (T,) bool, samples that are fitted
    offset_std: float  # rad

    def simulate(self, u: np.ndarray, ticks: int) -> np.ndarray:
        """(s, 4 + n) -> joint positions (s, ticks, n) rad."""
        log, count = self.log, len(PARAMETERS)
        span = self.prior.upper - self.prior.lower
        targets = Targets(log.written_s[:ticks], log.joint_target[:ticks])
        parameters = self.prior.lower + u[:, :count] * span
        return self.rollout.shifted(
            parameters, targets, u[:, count:] * self.offset_std, log.joint_pos[0], log.time_s[:ticks]
        )

    def residuals(self, u: np.ndarray) -> np.ndarray:
        """(s, 4 + n) -> (s, rows): errors in units of NOISE_RAD, then the offsets' prior."""
        ticks = int(np.flatnonzero(self.keep)[-1]) + 1
        error = (self.simulate(u, ticks) - self.log.joint_pos[:ticks])[:, self.keep[:ticks]]
        return np.concatenate([error.reshape(len(u), -1) / NOISE_RAD, u[:, len(PARAMETERS) :]], axis=1)

    def jacobian(self, u: np.ndarray, *, central: bool = False) -> np.ndarray:
        """(4 + n,) -> (rows, 4 + n) by finite differences, all perturbations in one rollout."""
        step = np.where(np.arange(len(u)) < len(PARAMETERS), DIFFERENCE_STEP, OFFSET_STEP)
        step = np.where((np.arange(len(u)) < len(PARAMETERS)) & (u + step > 1.0), -step, step)
        up = u + np.diag(step)
        if central:
            down = u - np.diag(step)
            down[np.diag_indices(len(PARAMETERS))] = np.clip(np.diag(down)[: len(PARAMETERS)], 0.0, 1.0)
            rows = self.residuals(np.concatenate([up, down]))
            return ((rows[: len(u)] - rows[len(u) :]) / np.diag(up - down)[:, None]).T
        rows = self.residuals(np.concatenate([up, u[None]]))
        return ((rows[:-1] - rows[-1]) / step[:, None]).T

    def refine(self, start: np.ndarray, robust_rad: float) -> OptimizeResult:
        """Bounded robust least squares from one start."""
        free = np.full(len(start) - len(PARAMETERS), 4.0)
        low, high = np.r_[np.zeros(len(PARAMETERS)), -free], np.r_[np.ones(len(PARAMETERS)), free]
        return least_squares(
            lambda u: self.residuals(u[None])[0],
            np.clip(start, low + 0.01, high - 0.01),  # starts on a bound stall
            jac=self.jacobian,  # pyright: ignore[reportArgumentType]
            bounds=(low, high),
            loss="soft_l1",
            f_scale=robust_rad / NOISE_RAD,
            max_nfev=15,
            ftol=1e-4,
            xtol=1e-3,
        )


def identify(log: JointLog, robot: RobotSpec, prior: Prior | None = None, *, physics_dt_s: float = 0.005) -> Identified:
    """Identify the parameters that explain a log of an excitation.

    The first three quarters are fitted; errors before and after are those of the last quarter.

    Args:
        log: joints in robot order.
        robot: nominal model and gains.
        prior: ranges to search.
        physics_dt_s: step of the simulation that the result is for.

    Raises:
        LogError: other joints, too short, or hardly any motion.
    """
    prior = prior or Prior()
    check_log(log, robot)
    start, split = log.time_s[0] + SETTLE_S, log.time_s[0] + (1.0 - HELD_OUT) * log.duration_s
    keep = (log.time_s >= start) & (log.time_s < split)
    rollout = ServoRollout(robot, physics_dt_s=physics_dt_s)
    fit = _Fit(rollout, log, prior, keep, prior.encoder_offset_rad / np.sqrt(3.0))
    u = _best(fit)
    values = prior.lower + u[: len(PARAMETERS)] * (prior.upper - prior.lower)
    # Errors are those of the parameters alone: the offsets that the fit allowed for are not part of the result.
    replayed = np.stack([NOMINAL, values]), Targets(log.written_s, log.joint_target), log.joint_pos[0], log.time_s
    before, after = rollout(*replayed) - log.joint_pos
    cov = _parameter_covariance(fit, u)
    found = dict(zip(PARAMETERS, estimates(values, cov, prior.lower, prior.upper), strict=True))
    separate = found["payload_kg"].identifiable and found["gain_scale"].identifiable
    payload, gain = PARAMETERS.index("payload_kg"), PARAMETERS.index("gain_scale")
    late = log.time_s >= split
    errors = zip(log.joint_names, _rms(before[late], 0), _rms(after[late], 0), strict=True)
    return Identified(
        robot=robot.name,
        log_id=log.log_id,
        physics_dt_s=physics_dt_s,
        **found,
        payload_per_gain=None if separate else ratio_estimate(values, cov, payload, gain),
        heldout=tuple(JointError(joint=n, before_rad=float(b), after_rad=float(a)) for n, b, a in errors),
        train_rmse_rad=float(_rms(after[keep])),
        heldout_before_rad=float(_rms(before[late])),
        heldout_after_rad=float(_rms(after[late])),
    )


def check_log(log: JointLog, robot: RobotSpec) -> None:
    """Raise LogError where a log cannot show the parameters of this robot."""
    if log.joint_names != robot.joint_names:
        raise LogError(f"the log has joints {log.joint_names}, {robot.name} has {robot.joint_names}; order matters")
    if log.duration_s < MIN_DURATION_S:
        raise LogError(f"the log lasts {log.duration_s:.1f} s, at least {MIN_DURATION_S:g} s are needed")
    spread = np.ptp(log.joint_target, axis=0)
    if (spread > MIN_MOTION_RAD).sum() < len(spread) / 2:
        raise LogError(f"no excitation: targets spread {np.round(spread, 3).tolist()} rad; record `excitation(robot)`")
    moved = np.ptp(log.joint_pos, axis=0)
    if (moved < 0.1 * spread).all():
        raise LogError(f"the joints did not follow: they moved {np.round(moved, 3).tolist()} rad; is torque on?")


def _best(fit: _Fit) -> np.ndarray:
    """Solution from several starts: random ones are ranked, the best refined, the winner refined with the final loss."""
    rng = np.random.default_rng(0)
    joints = len(fit.log.joint_names)
    middle = (np.array([1.0, 1.0, 0.05, 0.02]) - fit.prior.lower) / (fit.prior.upper - fit.prior.lower)
    starts = np.vstack([middle, rng.uniform(0.05, 0.95, size=(STARTS, len(PARAMETERS)))])
    starts = np.hstack([np.clip(starts, 0.05, 0.95), np.zeros((len(starts), joints))])
    order = np.argsort((fit.residuals(starts) ** 2).sum(axis=1))
    coarse = [fit.refine(starts[index], COARSE_RAD) for index in order[:REFINED]]
    return fit.refine(min(coarse, key=lambda r: r.cost).x, ROBUST_RAD).x


def _parameter_covariance(fit: _Fit, u: np.ndarray) -> np.ndarray:
    """(4, 4) in the units of the parameters, offsets marginalised."""
    residuals = fit.residuals(u[None])[0]
    joints = len(fit.log.joint_names)
    blocks = ((fit.log.time_s[fit.keep] - fit.log.time_s[0]) / BLOCK_S).astype(int).repeat(joints)
    weights = 1.0 / np.sqrt(1.0 + (residuals * NOISE_RAD / ROBUST_RAD) ** 2)
    rows = Linearisation(fit.jacobian(u, central=True), residuals, weights, np.r_[blocks, np.full(joints, -1)])
    scale = fit.prior.upper - fit.prior.lower
    return covariance(rows)[: len(PARAMETERS), : len(PARAMETERS)] * np.outer(scale, scale)


def _rms(error: np.ndarray, axis: int | None = None) -> np.ndarray:
    return np.sqrt(np.mean(error**2, axis=axis))
