"""Where everything is kept: one protocol (`engine`), two engines, migrations and backups."""
