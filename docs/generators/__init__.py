"""The pages of docs/reference, each made from what the code declares. `docs/generate.py` writes them."""
