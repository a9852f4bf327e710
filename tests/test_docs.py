"""What docs/policies.md says of importers is so; its Python runs in test_house.py."""

import re
from pathlib import Path

from isthmus.policies.importers.common import read_facts
from isthmus.policies.importers.registry import IMPORTERS

PAGE = (Path(__file__).parents[1] / "docs" / "policies.md").read_text()


def blocks(language):
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found


def test_the_facts_on_the_page_are_facts(tmp_path):
    path = tmp_path / "facts.toml"
    path.write_text(blocks("toml")[0])
    facts = read_facts(path)
    assert facts.robot == "g1" and facts.of("left_knee_joint").upper == 2.7
    assert facts.of("left_knee_joint").velocity_limit == 20.0


def test_the_page_names_every_importer():
    words = PAGE.lower()
    shown = {"bare": "anything else", "isaaclab": "isaac lab", "unitree": "unitree_rl_lab", "motrix": "motrix-deploy"}
    assert [name for name in IMPORTERS if shown.get(name, name) not in words] == []
