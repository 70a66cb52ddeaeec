"""Moving out: a whole workspace or store as a file, as pages to read, or copied into another store."""
