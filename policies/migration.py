"""Older files become what this isthmus reads: plain data of an older schema -> plain data of today's, one step after the other.

A step adds what the older schema left unsaid, because there it could only be one thing. Nothing is guessed.
"""

from collections.abc import Callable, Mapping, MutableMapping
from typing import cast

from . import contract, manifest

Data = MutableMapping[str, object]


def migrated_manifest(data: object) -> object:
    """A bundle's manifest in today's schema, the contract in it too; what is no manifest comes back as it is."""
    if not isinstance(data, dict):
        return data
    found = _stepped(data, MANIFEST_STEPS, manifest.SCHEMA)
    return {**found, "contract": migrated_contract(found["contract"])} if "contract" in found else found


def migrated_contract(data: object) -> object:
    """A contract in today's schema; what is no contract comes back as it is."""
    return _stepped(data, CONTRACT_STEPS, contract.SCHEMA) if isinstance(data, dict) else data


def _stepped(data: Data, steps: Mapping[int, Callable[[Data], Data]], last: int) -> Data:
    while data.get("schema") != last and data.get("schema") in steps:
        schema = cast(int, data["schema"])
        try:
            data = {**steps[schema](data), "schema": schema + 1}
        except (TypeError, AttributeError):  # not even of its own schema: whoever reads it says where
            break
    return data


def _manifest_2(data: Data) -> Data:
    """Nothing was kept of training; nothing was imported."""
    return {**data, "distribution": None, "envelope": None, "sources": []}


def _contract_3(data: Data) -> Data:
    """Terms had a history, oldest first, filled with the first sample; all actions but positions were clipped at 1."""
    terms = [_with_lags(term) for term in cast(list[Data], data.get("observation", []))]
    action = cast(Data, data.get("action", {}))
    return {**data, "observation": terms, "action": action if "clip" in action else {**action, "clip": 1.0}}


def _with_lags(term: Data) -> Data:
    samples = term.get("history", 1)
    lags = (
        list(range(samples - 1, -1, -1)) if isinstance(samples, int) else samples
    )  # what is no number is refused later
    return {**{name: value for name, value in term.items() if name != "history"}, "lags": lags}


MANIFEST_STEPS: dict[int, Callable[[Data], Data]] = {1: _manifest_2}
CONTRACT_STEPS: dict[int, Callable[[Data], Data]] = {2: _contract_3}
