"""A broker in a process of its own: started on free ports and a fresh directory, killed, stopped, started again."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("GEMINGA_BIN", ROOT / "target/release/geminga")).resolve()
PATIENCE = 30


def environment():
    """What the broker sees of ours: variables of the tests would be settings to it."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GEMINGA_")}


class Broker:
    """A running broker; killed, and its directory removed, at the end of a `with` block."""

    def __init__(self, **settings):
        self.settings = settings
        self.home = Path(tempfile.mkdtemp(prefix="geminga-"))
        self.data = self.home / "data"
        self.process = None
        self.endpoints = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.kill()
        if kind is not None:
            print((self.home / "broker.log").read_text())
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self):
        """Starts it; after a first time on the same ports."""
        ports = [self.port("pulsar"), self.port("http")] if self.endpoints else [0, 0]
        settings = {"brokerServicePort": ports[0], "webServicePort": ports[1], **self.settings}
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        with open(self.home / "broker.log", "a") as log:
            self.process = subprocess.Popen(
                [BINARY, "--data", self.data, *flags], env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.endpoints = self.wait_until_ready()

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                endpoints = json.loads((self.data / "endpoints.json").read_text())
                # After a kill -9 the file of the dead process is still there; the pid tells them apart.
                if endpoints["pid"] == self.process.pid:
                    return endpoints
            except (FileNotFoundError, ValueError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise AssertionError(f"not ready within {PATIENCE} s, exit status {self.process.poll()}")

    @property
    def url(self):
        return self.endpoints["pulsar"]

    @property
    def http(self):
        return self.endpoints["http"]

    def port(self, scheme):
        return int(self.endpoints[scheme].rstrip("/").rsplit(":", 1)[1])

    def get(self, path):
        with urllib.request.urlopen(f"{self.http}{path}", timeout=PATIENCE) as answer:
            return answer.read()

    def stats(self, topic):
        """Numbers of a topic of the default namespace."""
        return json.loads(self.get(f"/admin/v2/persistent/public/default/{topic}/stats"))

    def subscription(self, topic, name):
        return self.stats(topic)["subscriptions"][name]

    def metric(self, name, topic):
        """The sample of this family that tells of one topic of the default namespace."""
        label = f'topic="persistent://public/default/{topic}"'
        lines = self.get("/metrics").decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{name}{{") and label in line).split()[-1])

    def kill(self):
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)
