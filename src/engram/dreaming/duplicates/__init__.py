"""Which statements say the same, and which contradict each other."""
