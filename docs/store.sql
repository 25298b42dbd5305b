-- Question: what does a store of many recordings hold?
--
-- Run this first; queries of docs/continuous.md read these views. DuckDB, with the store named before:
--   SET VARIABLE store = 's3://profiles/prod';       -- or a folder: '/srv/profiles'
--
-- Ids (thread, stack, site …) mean something within one recording only: join on (service, host, recording, id).

CREATE OR REPLACE TEMP MACRO stored(name) AS TABLE
SELECT * FROM read_parquet(getvariable('store') || '/' || name || '/*/*/*/*/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true);

-- One row per recording: when, where, what, how.
CREATE OR REPLACE TEMP VIEW recordings AS
SELECT *, make_timestamp_ns(start_unix_ns) AS began, make_timestamp_ns(end_unix_ns) AS ended FROM stored('recordings');

-- The time of every thread by state and stack, with all names. It needs no other table.
CREATE OR REPLACE TEMP VIEW profile AS FROM stored('profile');

-- The same for any other table: FROM stored('slices')
