"""Run pytest with encrypted SQLite stores: every store that a test makes is encrypted with the same key.

`python tests/with_key.py [pytest arguments]`; `make test-encrypted` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from engram.storage.keys import Keys


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="engram-key-") as folder:
        keys = Keys(os.path.join(folder, "store.key"))
        keys.newest()
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            env={**os.environ, "ENGRAM_TEST_KEY_FILE": keys.file},
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
