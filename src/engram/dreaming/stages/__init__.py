"""The stages of a pass: gists, extraction, consolidation, eras, the portrait, the digest."""
