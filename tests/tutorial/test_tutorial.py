"""Runs every command of docs/tutorial.md as a newcomer would, in an empty folder, and looks for what the page says comes of it.

    test_tutorial.py DWELL

Blocks of ```console have commands, a block with a file's name is that file. `<!-- expect: REGEX -->` below a block must match in
what its commands print. Needs root.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tutorial.md"


def blocks(text):
    """(info, body, expectations) of each fenced block."""
    pattern = r"^```(\S+)(?: (\S+))?\n(.*?)^```\n((?:<!-- expect: [^\n]* -->\n)*)"
    for kind, name, body, expected in re.findall(pattern, text, re.M | re.S):
        yield kind, name, body, re.findall(r"<!-- expect: (.*) -->", expected)


def run(commands, folder, path):
    """What commands print; each must succeed."""
    printed = ""
    for command in commands:
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
        printed += done.stdout
    return printed


def main(dwell):
    commands_run = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as bin:
        os.symlink(os.path.realpath(dwell), f"{bin}/dwell")
        path = f"{bin}:{os.environ['PATH']}"
        for kind, name, body, expected in blocks(PAGE.read_text()):
            if name:
                pathlib.Path(folder, name).write_text(body)
            elif kind == "console":
                commands = [line.removeprefix("$ ") for line in body.splitlines()]
                assert all(line.startswith("$ ") for line in body.splitlines()), body
                printed = run(commands, folder, path)
                commands_run += len(commands)
                for pattern in expected:
                    assert re.search(pattern, printed), f"nothing like {pattern!r} in\n{printed}"
    assert commands_run > 8, f"{commands_run} commands: is the page empty?"
    print(f"{commands_run} commands of {PAGE.name}")


main(*sys.argv[1:])
