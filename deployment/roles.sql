-- The roles and the schema of one team. An administrator runs it for each team, in the database of the stores:
--
--   psql -v ON_ERROR_STOP=1 -v team=alpha -f deployment/roles.sql postgresql://postgres@db.example.org/engram
--
-- alpha_owner creates and migrates the store. alpha_app uses it. Neither has any right on the schema of another team.
-- Give them passwords with psql's \password, or let pg_hba.conf decide how they log in. Running this file again changes
-- nothing.
\set owner :team _owner
\set app :team _app

SELECT format('CREATE ROLE %I LOGIN', name) FROM unnest(ARRAY[:'owner', :'app']) AS name
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = name) \gexec
CREATE SCHEMA IF NOT EXISTS :"team" AUTHORIZATION :"owner";
-- Before a migration, the owner copies the store into a new schema: alpha_before_0017_….
GRANT CREATE ON DATABASE :"DBNAME" TO :"owner";

-- pgvector has a schema of its own. Without pgvector Engram compares vectors itself, which is slower in a large store.
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS has_pgvector \gset
\if :has_pgvector
  CREATE SCHEMA IF NOT EXISTS extensions;
  CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA extensions;
  SELECT extnamespace::regnamespace AS extensions FROM pg_extension WHERE extname = 'vector' \gset
  GRANT USAGE ON SCHEMA :extensions TO :"owner", :"app";
\else
  \warn 'This server has no pgvector, so that part is left out. To add it later, install pgvector and run this file again.'
\endif

-- The default of PostgreSQL 15 and newer. In PostgreSQL 14 every role may put functions there that others then call.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

GRANT USAGE ON SCHEMA :"team" TO :"app";
-- For what the owner creates later: the store itself, and the tables of later migrations.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"team"
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"app";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"team" GRANT USAGE, SELECT ON SEQUENCES TO :"app";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"team" GRANT EXECUTE ON FUNCTIONS TO :"app";
