"""A made-up month of a small team, for looking around: `engram demo --fill`.

The texts are data, in `texts/`, and `script` reads them. `shared` has the leases and the passes of dreaming. `filling`
plays all of it in order of time through the library, with a clock that is set to each moment.
"""
