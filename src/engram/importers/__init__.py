"""Moving in: reads what other systems kept about a person's past and writes it into a store.

A format is a module with a reader; `formats.py` lists them. `items.py` is what readers give. `importing.py` runs an
import; `session_writing.py` and `memory_writing.py` write what the readers give.
"""

from .importing import run as run
