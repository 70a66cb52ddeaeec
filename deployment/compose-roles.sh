#!/bin/sh
# Makes the roles and the schema when the database of compose.yaml is new.
set -eu
psql -v ON_ERROR_STOP=1 -v team=engram -f /deployment/roles.sql --username postgres --dbname engram
psql -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v app="$APP_PASSWORD" --username postgres --dbname engram <<'SQL'
ALTER ROLE engram_owner PASSWORD :'owner';
ALTER ROLE engram_app PASSWORD :'app';
SQL
