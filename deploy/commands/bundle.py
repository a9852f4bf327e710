"""`isthmus bundle`: look at a bundle, check it, compare two, sign one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from isthmus.policies.bundle import Bundle
    from isthmus.policies.contract import Contract, ObservationTerm

ROUNDING = 1e-6  # share of a value that float32 and a few operations take
MANY = 8  # values of one list that are told one by one
Given = Annotated[Path, Positional, arg(metavar="BUNDLE")]


@dataclass(frozen=True, kw_only=True)
class BundleShow:
    """Say what a bundle is: its robot, signals, observation, action, limits, and where it comes from."""

    bundle: Given
    """The .onnx file."""

    def run(self) -> int:
        """Load, with every check that loading makes, and print."""
        from rich.console import Console
        from rich.table import Table

        from isthmus.policies.bundle import load_bundle

        bundle, console = load_bundle(self.bundle), Console()
        for line in summary(bundle):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
        contract = bundle.manifest.contract
        joints = Table("joint", "driven", "default", "range", "speed", "effort", "kp", "kd", title=_units(contract))
        for joint in contract.joints:
            driven = "x" if joint.name in contract.action.joints else ""
            numbers = (joint.velocity_limit, joint.effort_limit, joint.kp, joint.kd)
            ends = f"{joint.lower:.4g} .. {joint.upper:.4g}"
            joints.add_row(joint.name, driven, f"{joint.default_pos:.4g}", ends, *(f"{n:.4g}" for n in numbers))
        if contract.joints:
            console.print(joints)
        terms = Table("term", "values", "scale", "clip", "ticks ago", title="observation, in this order")
        for term in contract.observation:
            terms.add_row(*_term_row(term, contract))
        console.print(terms)
        return 0


@dataclass(frozen=True, kw_only=True)
class BundleVerify:
    """Check a bundle: digest, graph, contract, golden rows; and its signature, if a key is given."""

    bundle: Given
    """The .onnx file."""
    trusted: Path | None = None
    """Public key (PEM) of whoever must have signed it."""

    def run(self) -> int:
        """Check, and say what was checked."""
        from isthmus.policies.bundle import load_bundle, target_output

        bundle = load_bundle(self.bundle)
        rows = len(bundle.golden[target_output(bundle.manifest.contract)])
        print(f"{self.bundle}: digest, graph and contract are right; {rows} golden rows replayed")
        if self.trusted is not None:
            from isthmus.policies.signature import check_signature

            check_signature(self.bundle, self.trusted)
            print(f"signed by {self.trusted}")
        return 0


@dataclass(frozen=True, kw_only=True)
class BundleDiff:
    """Say in which values two bundles differ; ends with 1 if they do."""

    bundle: Given
    """An .onnx bundle."""
    other: Annotated[Path, Positional, arg(metavar="OTHER")]
    """The .onnx bundle that it is compared with."""

    def run(self) -> int:
        """Compare manifests value by value, weights as a whole."""
        from isthmus.policies.bundle import load_bundle

        first, second = load_bundle(self.bundle), load_bundle(self.other)
        found = list(differences(first, second))
        for line in found or ["the two say and compute the same"]:
            print(line)
        return int(bool(found))


@dataclass(frozen=True, kw_only=True)
class BundleSign:
    """Sign a bundle with an Ed25519 key; the signature is a file beside it."""

    bundle: Given
    """The .onnx file."""
    key: Path
    """Private key (PEM)."""
    new_key: bool = False
    """Make the key first, and beside it KEY.pub, to be given to `bundle verify --trusted`."""

    def run(self) -> int:
        """Check the bundle, sign it."""
        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.signature import make_key, sign

        load_bundle(self.bundle)
        if self.new_key:
            make_key(self.key)
            print(f"wrote {self.key}, which is secret, and {self.key}.pub")
        print(f"wrote {sign(self.bundle, self.key)}")
        return 0


def _units(contract: "Contract") -> str:
    """What the numbers of joints are in; a contract does not say which joints slide, the robot does."""
    from isthmus.hardware.errors import IsthmusError
    from isthmus.hardware.robot import load_robot

    kinds = dict.fromkeys(contract.joint_names, "unknown")
    try:
        kinds |= {joint.name: joint.kind for joint in load_robot(contract.robot).joints}
    except IsthmusError:  # a robot that is not installed here
        kinds |= dict.fromkeys(() if contract.chain is None else contract.chain.joint_names, "hinge")
    known = {
        "hinge": "rad, N m, s",
        "slide": "m, N, s",
        "unknown": "rad, N m, s where it turns, m, N, s where it slides",
    }
    found = []
    for kind, words in known.items():
        names = [name for name, own in kinds.items() if own == kind]
        if names:
            found.append(words if len(names) == len(kinds) else f"{', '.join(names)}: {words}")
    return "; ".join(found)


def summary(bundle: "Bundle") -> Iterator[str]:
    """What a bundle is, a line each."""
    manifest = bundle.manifest
    contract, made = manifest.contract, manifest.provenance
    driven = len(contract.action.joints)
    yield f"{bundle.path}  {bundle.path.stat().st_size / 1024:.0f} kB  sha256 {bundle.sha256}"
    yield f"{contract.task} for robot {contract.robot}, {1e9 / contract.period_ns:g} Hz"
    yield f"action: {contract.action.kind}, {driven} driven, scale {contract.action.scale}, clip {contract.action.clip}"
    widths = (f"{name} ({contract.signal_width(name)})" for name in contract.signals)
    yield f"signals: {', '.join(widths)}"
    if contract.command is not None:
        yield f"command: {contract.command.signal}, trained for {_command_range(contract)}"
    low, high = (1000 * end for end in contract.latency_s)
    yield f"trained for command delays of {low:g} .. {high:g} ms"
    states = ", ".join(f"{state.name} ({state.width})" for state in manifest.states) or "none"
    yield f"states: {states}"
    if manifest.residual is not None:
        yield f"with a residual within +-{manifest.residual.alpha:g} on base {manifest.residual.base_sha256[:12]}"
    success = (
        "not evaluated" if made.simulated_success is None else f"{100 * made.simulated_success:.1f} % in simulation"
    )
    yield f"made {made.created} by isthmus {made.isthmus}; {made.trainer}; {made.environment_steps} steps, seed {made.seed}; {success}"
    met = manifest.distribution
    yield "training distribution: " + ("not kept" if met is None else f"kept, of {met.ticks} ticks")
    if manifest.sources:
        yield f"{len(manifest.sources)} values imported, for example {manifest.sources[0].path} from {manifest.sources[0].source}"


def differences(first: "Bundle", second: "Bundle") -> Iterator[str]:
    """Each value of the manifests in which two bundles differ, and whether they compute the same."""
    from isthmus.hardware.structure import leaves, unstructure

    sides = [dict(leaves(unstructure(bundle.manifest))) for bundle in (first, second)]
    lists: dict[str, list[tuple[str, object, object]]] = {}  # by the list that values stand in
    for where in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(where, "absent") for side in sides)
        if one != other:
            lists.setdefault(re.sub(r"(\[\d+\])+$", "", where), []).append((where, one, other))
    for where, pairs in lists.items():
        yield from _told(where, pairs)
    gap = _computed_gap(first, second)
    if gap is None:
        yield "what they compute cannot be compared: they take other signals or drive other joints"
    elif not gap <= 0.0:
        how = (
            "are not finite for one of them"
            if gap != gap
            else f"differ by up to {gap:.3g}{': rounding' if gap <= ROUNDING else ''}"
        )
        yield f"on the first one's golden rows their targets {how}"


def _told(where: str, pairs: list[tuple[str, object, object]]) -> Iterator[str]:
    """Values of one list that differ: in one line where rounding explains them, or where there are many."""
    numbers = [(a, b) for _, a, b in pairs if isinstance(a, float) and isinstance(b, float)]
    rounded = [abs(a - b) for a, b in numbers if abs(a - b) <= ROUNDING * max(abs(a), abs(b))]
    if rounded:
        yield f"{where}: {_values(len(rounded))} by at most {max(rounded):.2g}: rounding"
    left = [
        (place, a, b)
        for place, a, b in pairs
        if not (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= ROUNDING * max(abs(a), abs(b)))
    ]
    if len(left) > MANY and len(numbers) == len(pairs):
        yield f"{where}: {_values(len(left))} by up to {max(abs(a - b) for _, a, b in left):.3g}"  # pyright: ignore[reportOperatorIssue]
        return
    for place, one, other in left:
        yield f"{place}: {one!r} / {other!r}"


def _values(count: int) -> str:
    return "1 value differs" if count == 1 else f"{count} values differ"


def _computed_gap(first: "Bundle", second: "Bundle") -> float | None:
    """Largest difference of targets on the golden rows of the first; None where signals or targets have other names or sizes."""
    import numpy as np

    from isthmus.policies.bundle import target_output

    ours, theirs = first.manifest.contract, second.manifest.contract
    names, target = ours.signals, target_output(ours)
    widths = [[(name, contract.signal_width(name)) for name in contract.signals] for contract in (ours, theirs)]
    if widths[0] != widths[1] or target != target_output(theirs):
        return None
    policies, gap = (first.policy(), second.policy()), 0.0
    for row in range(len(first.golden[target])):
        signals = {name: first.golden[name][row] for name in names}
        one, other = (policy.run(signals)[target] for policy in policies)
        gap = float(np.fmax(gap, np.abs(one - other).max()) if np.isfinite([one, other]).all() else np.nan)
        if gap != gap:
            return gap
    return gap


def _command_range(contract: "Contract") -> str:
    from isthmus.hardware.signals import SIGNALS

    command = contract.need_command()
    if command.workspace is not None:
        area = command.workspace
        return f"radius {area.radius} m, height {area.height} m, azimuth {area.azimuth} rad"
    own = [spec.unit for spec in (*SIGNALS, *contract.own_signals) if spec.name == command.signal]
    ranges = ", ".join(f"{low:g} .. {high:g}" for low, high in zip(command.low, command.high, strict=True))
    return f"{ranges} ({own[0]})" if own else ranges


def _term_row(term: "ObservationTerm", contract: "Contract") -> tuple[str, ...]:
    from isthmus.policies.contract import sample_width

    of = term.signal or (", ".join(term.joints) if term.joints else "")
    clip = "" if term.clip is None else f"{term.clip}{' scaled' if term.clip_scaled else ''}"
    fill = f", {term.fill}" if max(term.lags) > 0 else ""
    name = f"{term.name} ({of})" if of else term.name
    return name, str(sample_width(term, contract)), str(term.scale), clip, " ".join(map(str, term.lags)) + fill
