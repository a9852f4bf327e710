"""How a finding has to be put: every number with its unit, every sentence once."""

import re

from isthmus.deploy.doctor.findings import Finding

UNIT = re.compile(r"[^\[\]]+ \[(1|s|m|rad|m/s|rad/s|m/s\^2|N|N m|N/m|N m/rad|N s/m|N m s/rad)\]")


def ill_said(finding: Finding) -> str:
    """What is wrong with how a finding is put; "" where nothing is."""
    unnamed = [name for name in finding.numbers if not UNIT.fullmatch(name)]
    words = finding.sentence()
    parts = [part.strip() for part in re.split(r"[;:]", words)]
    twice = {part for part in parts if len(part) > 12 and parts.count(part) > 1}
    if unnamed:
        return f"numbers without a unit: {unnamed}"
    if twice or re.search(r"\.\.(?!\s)|\.\s*[;(]|[;,:]\s*[;,:.]|\s{2,}|\n", words):
        return f"doubled {twice or 'marks'}: {words}"
    return "" if words[-1] not in ".;:, " else f"ends twice: {words}"
