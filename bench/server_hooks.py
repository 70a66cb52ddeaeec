"""The cost of a hook whose store is behind a server, compared with the same hook on SQLite.

`engram-hook claude-code` is run for each event of a session as a new process, in alternation: with a SQLite store of
this machine, and with an `engram serve` on loopback that has a copy of that store. So the ratio holds what a server
adds or saves, and almost no network. The promise is a ratio of at most 1.5.

The third column has the same server over TLS. There a hook also imports `ssl`, reads the authorities of the machine and
makes a handshake.

The prompt recalls in a store with many turns (`--turns`). The stop and the prompt have a transcript of half a megabyte,
as a session after an hour of work has. Locally the transcript is read at a prompt only if the last turn was
interrupted; for a server it is read each time. The tables show wall-clock time and the processor time of the hook.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from time import sleep
from typing import TYPE_CHECKING, Any

import engram
from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench import startup
else:
    import _measure as measure
    import startup

#: The promise of docs/harnesses.md.
LIMIT = 1.5


def events(project: str, transcript: str, prompt: str) -> dict[str, dict[str, object]]:
    """The events of a session, by their names in the report."""
    found = startup.hook_events(project)
    found["stop"]["transcript_path"] = transcript
    asked: dict[str, object] = {"session_id": "bench", "cwd": project, "transcript_path": transcript}
    asked |= {"hook_event_name": "UserPromptSubmit", "prompt": prompt}
    return {"start": found.pop("start"), "prompt": asked, **found}


def write_transcript(path: Path, prompt: str) -> None:
    """A transcript in Claude Code's format: a prompt, many calls of tools, and some findings."""
    lines: list[dict[str, object]] = [{"type": "user", "message": {"role": "user", "content": prompt}}]
    for number in range(120):
        call = {"type": "tool_use", "name": "Read", "input": {"file_path": f"src/part{number}.py"}}
        said = {"type": "text", "text": f"Part {number} of the router reads the port twice, so the second one wins."}
        content = [said, call] if number % 12 == 0 else [call]
        lines.append({"type": "assistant", "uuid": f"a{number}", "message": {"role": "assistant", "content": content}})
        output = [{"type": "tool_result", "content": "x = 1\n" * 700}]
        lines.append({"type": "user", "toolUseResult": {}, "message": {"role": "user", "content": output}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Server:
    """`engram serve` on loopback, in a folder of its own; with a certificate, over TLS."""

    def __init__(self, store: str, environment: dict[str, str], certificate: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
        with Engram(settings=load(url=store)) as eng:
            self.token = eng.access.tokens.create(f"bench {port}", "write").secret
        program = os.path.join(os.path.dirname(sys.executable), "engram")
        command = [program, "serve", "--store", store, "--port", str(port), "--no-dream"]
        command += ["--tls-cert", certificate, "--tls-key", certificate] if certificate else []
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=environment, cwd="/", **quiet)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                sleep(0.05)
        raise AssertionError("the server does not start")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def write_certificate(folder: str) -> tuple[str, str]:
    """A certificate for loopback, and the authorities of this machine with it."""
    file, every = os.path.join(folder, "server.pem"), os.path.join(folder, "authorities.pem")
    made = [*("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"), "-batch"]
    made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file, "-out", every]
    subprocess.run(made, check=True, capture_output=True)
    own = Path(every).read_text()
    known = ssl.get_default_verify_paths().cafile
    Path(every).write_text(own + (Path(known).read_text() if known else ""))
    Path(file).write_text(own + Path(file).read_text())
    return file, every


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--turns", type=int, help="number of turns in the stores")
    chosen = parser.parse_args()
    rounds = 7 if chosen.quick else 41
    turns = chosen.turns or (2_000 if chosen.quick else 20_000)
    source = Path(engram.__file__).parent
    if not compileall.compile_dir(source, quiet=1):
        raise SystemExit(f"{source} cannot be compiled")
    with measure.workplace() as folder:
        project = os.getcwd()
        plain = {
            name: value
            for name, value in os.environ.items()
            # A checkout that is not installed is found by PYTHONPATH.
            if not name.startswith(("PYTHON", "ENGRAM", "XDG_")) or name == "PYTHONPATH"
        }
        plain |= {"HOME": os.path.join(folder, "home"), "ENGRAM_EMBEDDER": "static", "ENGRAM_AUTO_DREAM": "off"}
        ours, *theirs = (os.path.join(folder, f"{name}.db") for name in ("local", "served", "encrypted"))
        prompt = startup.fill_turns(ours, turns)
        for copy in theirs:
            shutil.copy(ours, copy)
        transcript = Path(folder, "transcript.jsonl")
        write_transcript(transcript, prompt)
        session = events(project, str(transcript), prompt)
        certificate, authorities = write_certificate(folder)
        serving = {**plain, "ENGRAM_DATA_DIR": os.path.join(folder, "server")}
        servers = [Server(theirs[0], serving), Server(theirs[1], serving, certificate)]
        places = {
            "SQLite": {**plain, "ENGRAM_URL": ours},
            **{
                name: {**plain, "ENGRAM_URL": each.url, "ENGRAM_TOKEN": each.token, "SSL_CERT_FILE": authorities}
                for name, each in zip(("server", "TLS"), servers, strict=True)
            },
        }
        spent: dict[tuple[str, str], list[startup.Spent]] = {(place, name): [] for place in places for name in session}
        try:
            for number in range(rounds + 2):
                first = number % len(places)
                order = [*list(places)[first:], *list(places)[:first]]
                for name, event in session.items():
                    for place in order:
                        spent[place, name].append(partial(startup.run_hook, event, places[place])())
        finally:
            for server in servers:
                server.close()
        log = Path(plain["HOME"], ".local/share/engram/hook.log")
        if log.exists():
            raise AssertionError(log.read_text())
        said = []
        for store in (ours, *theirs):
            with Engram(settings=load(url=store)) as eng:
                (known,) = [each for each in eng.sessions.list() if each.external_id == "bench"]
                said.append([turn.content for turn in eng.exchanges.history(known.id)])
        if said[0] != said[1] or said[0] != said[2] or not said[0]:
            raise AssertionError(f"the stores differ: {list(map(len, said))} turns")
    # The first rounds load the model of the server and fill caches.
    used = {key: found[2:] for key, found in spent.items()}
    report = measure.Report("Hooks with a server")
    report.notes.append(f"{rounds} rounds by turns; {turns:,} turns; the server on loopback has a SQLite store, too")
    for what in ("clock", "processor"):
        rows = [
            (name, *(median(getattr(each, what) for each in used[place, name]) * 1e3 for place in places))
            for name in session
        ]
        report.table(f"engram-hook, {what}, ms", ("", *places), rows)
    for name in session:
        local, remote, encrypted = ([each.clock for each in used[place, name]] for place in places)
        report.compare(f"{name}: server / SQLite", remote, local, "at most", LIMIT)
        report.compare(f"{name}: server over TLS / SQLite", encrypted, local, "at most", LIMIT)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
