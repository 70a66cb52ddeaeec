"""Other processes for the tests: forked children, and fresh interpreters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable

import pytest

#: Newer Python versions warn about forks with threads, which these tests do on purpose.
may_fork = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def works_in_a_child(work: Callable[[], bool]) -> bool:
    """Run the work in a forked process and return its result; kill it after a minute."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(60)
            code = 0 if work() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def fresh_python(code: str) -> str:
    """The output of the code in a new interpreter that has not imported Engram."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
