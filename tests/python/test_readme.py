"""What README.md tells a reader to type works, in the order in which it is told.

A fenced block below a comment `<!-- tested -->` is run: shell by bash, Python by the interpreter of this test. `prints: TEXT` in the
comment says what its output must contain, `starts the broker` that it goes on running while the others do. The usual ports may be
taken where this runs, so a broker on free ports stands in for them.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from broker import BINARY, ROOT, Broker, environment

BLOCK = re.compile(r"^<!-- tested(?P<notes>[^>]*)-->\n+```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```", re.M | re.S)


class Step:
    def __init__(self, match):
        self.language, self.text = match["language"], match["text"]
        self.starts = "starts the broker" in match["notes"]
        self.prints = [note.strip() for note in re.findall(r"prints: ([^,>]+)", match["notes"])]


def steps():
    return [Step(match) for match in BLOCK.finditer((ROOT / "README.md").read_text())]


class Place:
    """A folder that looks like a fresh clone after `cargo build --release`, except that the ports are free ones."""

    def __init__(self, home, broker):
        self.home, self.broker = home, broker
        self.script("target/release/geminga", f"""
            case "$1" in
              produce|consume) exec "{BINARY}" "$@" --url "{broker.url}" ;;
              admin|apply|check|doctor) exec "{BINARY}" "$@" --admin-url "http://localhost:{broker.port("http")}" ;;
              *) exec "{BINARY}" "$@" ;;
            esac
        """)
        for folder in ("conf", "tests"):
            (home / folder).symlink_to(ROOT / folder)

    def script(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/env bash\nset -eu\n" + textwrap.dedent(text))
        path.chmod(0o755)

    def run(self, step):
        text = step.text
        for usual, scheme in ((6650, "pulsar"), (8080, "http")):
            text = text.replace(f"localhost:{usual}", f"localhost:{self.broker.port(scheme)}")
        if step.language == "python":
            command = [sys.executable, "-c", text]
        else:
            command = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(command, cwd=self.home, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class Readme(unittest.TestCase):
    def test_the_broker_starts_as_told(self):
        starting = [step.text.strip() for step in steps() if step.starts]
        self.assertEqual(starting, ["cargo run --release"])
        # What cargo would run without being told: the one binary of the one default member.
        root = (ROOT / "Cargo.toml").read_text()
        self.assertIn('default-members = ["broker/geminga"]', root)
        self.assertEqual((ROOT / "broker/geminga/Cargo.toml").read_text().count("[[bin]]"), 1)

    def test_every_block_works(self):
        todo = [step for step in steps() if not step.starts]
        self.assertGreaterEqual(len(todo), 5, "README.md has lost its tested blocks")
        with Broker() as broker, tempfile.TemporaryDirectory() as home:
            place = Place(Path(home), broker)
            for step in todo:
                with self.subTest(step.text):
                    done = place.run(step)
                    self.assertEqual(done.returncode, 0, f"{step.text}\n{done.stdout}\n{done.stderr}")
                    for text in step.prints:
                        self.assertIn(text, done.stdout)

    def test_files_it_names_exist(self):
        page = (ROOT / "README.md").read_text()
        for target in re.findall(r"\]\(([^)#:]+)\)", page):
            self.assertTrue((ROOT / target).exists(), target)


if __name__ == "__main__":
    unittest.main()
