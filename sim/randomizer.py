"""The values of all randomised parameters in every environment, and when they are drawn anew."""

import torch

from .distributions import RandomizationError, Uniform
from .randomization import CorrelatedTerm, Term, When, check_randomization, is_length, parameter_info, parameters_of
from .world_parameters import EACH_JOINT

_ON_TIME = 1e-9  # s; sums of control periods miss a whole interval by less


class Randomizer:
    """Holds `values`: by parameter, (num_envs, width) float32, on the generator's device; neutral until first drawn.

    Which terms are drawn is fixed; their distributions may be replaced while training goes on (`use`). The same
    generator state and calls give the same bits.
    """

    def __init__(self, terms: tuple[Term, ...], num_envs: int, num_joints: int, generator: torch.Generator) -> None:
        check_randomization(terms)
        self.terms, self.num_envs, self.num_joints = terms, num_envs, num_joints
        self._generator = generator
        for term in terms:
            self._check_joint(term)
        names = [name for term in terms for name in parameters_of(term)]
        self.values = {name: self._neutral(name) for name in dict.fromkeys(names)}
        # Seconds until an environment's next draw, one row per term with an interval.
        self._wait = {
            index: torch.zeros(num_envs, dtype=torch.float64, device=generator.device)
            for index, term in enumerate(terms)
            if term.interval_s is not None
        }
        self._draw_phases(torch.arange(num_envs, device=generator.device))
        self._together = self._find_together()

    def value(self, name: str) -> torch.Tensor:
        """A parameter's values (num_envs, width): drawn ones, or the neutral where it is not randomised."""
        return self.values[name] if name in self.values else self._neutral(name)

    def draw(self, ids: torch.Tensor, when: When) -> tuple[str, ...]:
        """Draw the terms of that time anew in environments `ids` (k,) int64.

        At "reset" terms with an interval keep their values, but the time to their next draw becomes random again.

        Returns:
            Names of the parameters that changed.
        """
        if ids.numel() == 0:
            return ()
        terms = [term for term in self.terms if term.when == when]
        together = self._together.get(when)
        if together is not None:
            together.draw(ids, self._generator, self.values)
        for term in terms:
            if together is None or term not in together.terms:
                self._draw(term, ids)
        if when == "reset":
            self._draw_phases(ids)
        return tuple(dict.fromkeys(name for term in terms for name in parameters_of(term)))

    def due(self, seconds: float) -> dict[str, torch.Tensor]:
        """Let time pass in every environment and draw the interval terms whose time has come.

        Returns:
            By parameter that changed, the environments where it did, (k,) int64 ascending.
        """
        changed: dict[str, torch.Tensor] = {}
        for index, wait in self._wait.items():
            wait -= seconds
            ids = (wait <= _ON_TIME).nonzero().flatten()
            if ids.numel() == 0:
                continue
            interval = self.terms[index].interval_s
            assert interval is not None
            late = torch.clamp(_ON_TIME - wait[ids], min=0.0)
            wait[ids] += interval * (torch.floor(late / interval) + 1)
            self._draw(self.terms[index], ids)
            for name in parameters_of(self.terms[index]):
                changed[name] = torch.unique(torch.cat([changed[name], ids])) if name in changed else ids
        return changed

    def use(self, terms: tuple[Term, ...]) -> None:
        """Draw from these from now on: the same parameters at the same times, other distributions."""
        check_randomization(terms)
        if [_slot(term) for term in terms] != [_slot(term) for term in self.terms]:
            raise RandomizationError(
                "only distributions may change: expected terms on"
                f" {_text(self.terms)}, with the same when and interval_s, got {_text(terms)}"
            )
        self.terms = terms
        self._together = self._find_together()

    def put(self, name: str, ids: torch.Tensor, values: torch.Tensor) -> None:
        """Set a randomised parameter of environments `ids` (k,) to values (k, width) that were drawn elsewhere."""
        if name not in self.values:
            raise RandomizationError(f"{name!r} is not randomised here; randomised: {', '.join(self.values)}")
        expected = (ids.numel(), self.values[name].shape[1])
        if tuple(values.shape) != expected:
            raise RandomizationError(f"{name}: expected values of shape {expected}, got {tuple(values.shape)}")
        self.values[name][ids] = values

    def log(self) -> dict[str, float]:
        """Mean, smallest and largest value of every randomised parameter over all environments, as "<name>/mean" ..."""
        result: dict[str, float] = {}
        for name, values in self.values.items():
            for label, value in (("mean", values.mean()), ("min", values.min()), ("max", values.max())):
                result[f"{name}/{label}"] = float(value)
        return result

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that the future depends on but the terms, the generator's state included."""
        state = {f"value/{name}": values.clone() for name, values in self.values.items()}
        state |= {f"wait_s/{index}": wait.clone() for index, wait in self._wait.items()}
        return state | {"generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `state_dict` gave; raises RandomizationError when it is of other terms or environments."""
        mine = self.state_dict()
        expected = {name: tuple(value.shape) for name, value in mine.items()}
        got = {name: tuple(value.shape) for name, value in state.items()}
        if got != expected:
            raise RandomizationError(f"state of another randomisation: expected {expected}, got {got}")
        for name, values in self.values.items():
            values.copy_(state[f"value/{name}"])
        for index, wait in self._wait.items():
            wait.copy_(state[f"wait_s/{index}"])
        self._generator.set_state(state["generator"].cpu())

    def _find_together(self) -> dict[str, "_Uniforms"]:
        """By time, the terms that one draw can serve: uniform ones on whole parameters that no other term of that time sets."""
        found: dict[str, _Uniforms] = {}
        for when in dict.fromkeys(term.when for term in self.terms):
            terms = [term for term in self.terms if term.when == when]
            names = [name for term in terms for name in parameters_of(term)]
            plain = [term for term in terms if _is_plain(term) and names.count(parameters_of(term)[0]) == 1]
            if plain:
                widths = [self.values[parameters_of(term)[0]].shape[1] for term in plain]
                found[when] = _Uniforms(tuple(plain), widths, self._generator.device)
        return found

    def _draw(self, term: Term, ids: torch.Tensor) -> None:
        count, generator = ids.numel(), self._generator
        if isinstance(term, CorrelatedTerm):
            drawn = term.distribution.sample((count,), generator)
            for index, name in enumerate(term.parameters):
                self.values[name][ids] = drawn[:, index : index + 1]
            return
        store = self.values[term.parameter]
        if term.component is not None:
            store[ids, term.component] = term.distribution.sample((count,), generator)
        elif is_length(term.parameter):
            way = torch.randn((count, store.shape[1]), generator=generator, device=generator.device)
            length = term.distribution.sample((count, 1), generator)
            store[ids] = length * way / torch.linalg.vector_norm(way, dim=-1, keepdim=True)
        else:
            store[ids] = term.distribution.sample((count, store.shape[1]), generator)

    def _draw_phases(self, ids: torch.Tensor) -> None:
        for index, wait in self._wait.items():
            interval = self.terms[index].interval_s
            assert interval is not None
            unit = torch.rand(ids.numel(), generator=self._generator, device=wait.device, dtype=torch.float64)
            wait[ids] = interval * (1.0 - unit)  # in (0, interval]: never at once

    def _neutral(self, name: str) -> torch.Tensor:
        info = parameter_info(name)
        neutral = info.neutral * self.num_joints if info.width == EACH_JOINT else info.neutral
        return torch.tensor(neutral, dtype=torch.float32, device=self._generator.device).repeat(self.num_envs, 1)

    def _check_joint(self, term: Term) -> None:
        if isinstance(term, CorrelatedTerm) or term.component is None:
            return
        if parameter_info(term.parameter).width == EACH_JOINT and term.component >= self.num_joints:
            raise RandomizationError(
                f"{term.parameter}: component must lie in 0 .. {self.num_joints - 1}, a joint, got {term.component}"
            )


class _Uniforms:
    """Uniform terms drawn at once: many small draws take longer than one."""

    def __init__(self, terms: tuple[Term, ...], widths: list[int], device: torch.device) -> None:
        self.terms, self._widths = terms, widths
        self._names = [parameters_of(term)[0] for term in terms]
        bounds = torch.tensor([term.distribution.support for term in terms], device=device)
        self._low, self._high = bounds.repeat_interleave(torch.tensor(widths, device=device), 0).T.contiguous()

    def draw(self, ids: torch.Tensor, generator: torch.Generator, values: dict[str, torch.Tensor]) -> None:
        """Draw anew in environments `ids` (k,) int64, into `values`."""
        unit = torch.rand((ids.numel(), len(self._low)), generator=generator, device=generator.device)
        drawn = torch.clamp(torch.lerp(self._low, self._high, unit), self._low, self._high)
        for name, part in zip(self._names, drawn.split(self._widths, dim=1), strict=True):
            values[name][ids] = part


def _is_plain(term: Term) -> bool:
    if isinstance(term, CorrelatedTerm) or term.component is not None or is_length(term.parameter):
        return False
    return isinstance(term.distribution, Uniform)


def _slot(term: Term) -> tuple[object, ...]:
    component = None if isinstance(term, CorrelatedTerm) else term.component
    return parameters_of(term), component, term.when, term.interval_s


def _text(terms: tuple[Term, ...]) -> str:
    return "; ".join(", ".join(parameters_of(term)) for term in terms) or "nothing"
