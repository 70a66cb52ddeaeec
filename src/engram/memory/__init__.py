"""What was said, done and learnt: exchanges, memories, blocks, and how they are found again."""
