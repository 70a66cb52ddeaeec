"""Run pytest on a PostgreSQL whose databases sort by an ICU locale, as many a team's do.

The server that the tests bring along has no ICU and sorts bytes, which would hide a missing COLLATE. This one is
Debian's; as root it is installed when missing. `python tests/with_icu.py [pytest arguments]`; `make test-icu` does.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile


def main(arguments: list[str]) -> int:
    programs = _programs()
    folder = tempfile.mkdtemp(prefix="engram-icu-")
    as_postgres = _unprivileged(folder)
    data = f"{folder}/data"
    locale = ["--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"]
    subprocess.run(
        [*as_postgres, f"{programs}/initdb", "-D", data, "-U", "postgres", "-A", "trust", *locale],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    control = [*as_postgres, f"{programs}/pg_ctl", "-w", "-D", data]
    subprocess.run([*control, "-o", f"-h '' -k {folder}", "-l", f"{folder}/log", "start"], check=True)
    try:
        url = f"postgresql://postgres@/postgres?host={folder}"
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], env={**os.environ, "ENGRAM_TEST_POSTGRES": url}, check=False
        ).returncode
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> str:
    """The folder of the newest PostgreSQL's server programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if not found and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "postgresql"], check=True)
        found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        sys.exit("No PostgreSQL server programs here; on Debian: apt-get install postgresql")
    return os.path.dirname(found[-1])


def _unprivileged(folder: str) -> list[str]:
    """PostgreSQL refuses to run as root; then it runs as the user that Debian's package made."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    os.chmod(folder, 0o755)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
