"""What the README shows is what runs: its first example is a file, its two commands are the ones that CI types."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_first_example_is_the_file_that_is_tested() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert shown == (ROOT / "examples" / "first.py").read_text(encoding="utf-8"), (
        "README.md and examples/first.py differ: change the file, run it, and copy it into the README's python block"
    )


def test_two_commands_stand_below_their_markers_one_line_each() -> None:
    commands = re.findall(r"<!-- command: (\w+) -->\n```sh\n([^\n]+)\n```\n", README)
    assert [name for name, _ in commands] == ["serve", "test"], ".ci/run reads the commands below these two markers"
    assert README.count("```sh") == 2, "the README promises two commands; others belong in docs/"


def test_files_that_the_readme_links_to_exist() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
