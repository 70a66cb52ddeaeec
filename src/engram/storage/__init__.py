"""The store: one protocol (`engine`), two engines, migrations and backups."""
