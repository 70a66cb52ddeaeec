"""What was said, done and learnt: exchanges and blocks."""
