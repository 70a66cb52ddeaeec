"""A program that behaves like a client's non-interactive mode as far as its documented interface goes.

It is written to a folder of the test. What it does comes from files beside it, because a client gets no variables of
the test; what it was started with is written there too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_SOURCE = """#!{python}
import json, os, signal, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
what = json.load(open(os.path.join(here, "script.json")))
given = sys.stdin.read()
seen = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(), "prompt": given,
        "entries": os.listdir(os.getcwd()), "mode": oct(os.stat(os.getcwd()).st_mode & 0o777), "pid": os.getpid(),
        "beside": [name for name in os.listdir("..")]}}
with open(os.path.join(here, "seen.jsonl"), "a") as file:
    file.write(json.dumps(seen) + "\\n")
if what.get("grandchild"):
    code = "import os, signal, time\\n" + what["grandchild"] + "\\ntime.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", code])
    open(os.path.join(here, "grandchild"), "w").write(str(child.pid))
    while what.get("wait_for") and not os.path.exists(os.path.join(here, what["wait_for"])):
        time.sleep(0.01)
if what.get("ignores_term"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what.get("transcript"):
    open(os.path.join(os.environ["TMPDIR"], "transcript.jsonl"), "w").write(given)
open(os.path.join(here, "started"), "w").close()
time.sleep(what.get("sleep", 0))
for _ in range(what.get("repeat", 1)):
    sys.stdout.write(what.get("out", ""))
sys.stdout.flush()
sys.stderr.write(what.get("err", ""))
sys.stderr.flush()
if what.get("signal"):
    os.kill(os.getpid(), what["signal"])
sys.exit(what.get("code", 0))
"""


class FakeClient:
    def __init__(self, folder: Path, name: str = "claude") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.program = folder / name
        self.program.write_text(_SOURCE.format(python=sys.executable))
        self.program.chmod(0o755)
        self.does()

    def does(self, **what: Any) -> None:
        """What it does from now on."""
        (self.folder / "script.json").write_text(json.dumps(what))

    def answers(self, text: str, **more: Any) -> None:
        """It answers as Claude Code does."""
        said = {"type": "result", "is_error": False, "result": text, "stop_reason": "end_turn"}
        said["usage"] = {"input_tokens": 8, "cache_read_input_tokens": 3, "output_tokens": 7}
        self.does(out=json.dumps(said | more))

    @property
    def runs(self) -> list[dict[str, Any]]:
        file = self.folder / "seen.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
