-- Question: what does a recording hold, and how long did every thread spend at every stack?
--
-- Run this first; the other queries read these views. DuckDB, with the recording named before:
--   SET VARIABLE recording = 'X.dwell';
--
-- The tables: rows of the segments that meta.json counts. Where a table has a key, its last row
-- counts: a row of a later segment, or a later row of the same segment.

CREATE OR REPLACE TEMP VIEW meta AS
SELECT content::JSON AS json FROM read_text(getvariable('recording') || '/meta.json');

-- Number of the segment a file is of: order by it, not by the name.
CREATE OR REPLACE TEMP MACRO segment_of(file) AS regexp_extract(file, '-(\d+)\.parquet$', 1)::UINTEGER;

CREATE OR REPLACE TEMP MACRO rows_of(name) AS TABLE
SELECT * REPLACE (segment_of(filename) AS filename)
FROM read_parquet(getvariable('recording') || '/' || name || '-*.parquet', filename = true, file_row_number = true)
WHERE segment_of(filename) < (SELECT (json ->> '$.segments')::UINTEGER FROM meta);

CREATE OR REPLACE TEMP VIEW processes AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('processes')
QUALIFY row_number() OVER (PARTITION BY process ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW threads AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('threads')
QUALIFY row_number() OVER (PARTITION BY thread ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW frames AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('frames')
QUALIFY row_number() OVER (PARTITION BY frame ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW symbols AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('symbols')
QUALIFY row_number() OVER (PARTITION BY frame, depth ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW stacks AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('stacks')
QUALIFY row_number() OVER (PARTITION BY stack ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW sites AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('sites')
QUALIFY row_number() OVER (PARTITION BY site ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW mappings AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('mappings');

CREATE OR REPLACE TEMP VIEW site_times AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('site_times');

CREATE OR REPLACE TEMP VIEW samples AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('samples');

CREATE OR REPLACE TEMP VIEW slices AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('slices');

CREATE OR REPLACE TEMP VIEW events AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('events');

-- Names. A frame has one name or, with inlining, several: outermost first, as in a stack. A frame
-- without a symbol is named by its module and address.

CREATE OR REPLACE TEMP VIEW frame_names AS
SELECT
    f.frame,
    coalesce(
        list(s.function ORDER BY s.depth DESC) FILTER (s.function IS NOT NULL),
        [f.module || '+0x' || format('{:x}', f.address)]
    ) AS names
FROM frames f LEFT JOIN symbols s ON s.frame = f.frame
GROUP BY f.frame, f.module, f.address;

-- Every stack: all function names outermost first, the leaf, and the folded form.
CREATE OR REPLACE TEMP VIEW stack_names AS
WITH placed AS (
    SELECT stack, "end", unnest(frames) AS frame, generate_subscripts(frames, 1) AS place FROM stacks
),
named AS (
    SELECT p.stack, flatten(list(coalesce(n.names, ['[unknown frame]']) ORDER BY p.place)) AS names
    FROM placed p LEFT JOIN frame_names n ON n.frame = p.frame
    GROUP BY p.stack
)
SELECT
    s.stack,
    s."end",
    coalesce(n.names, ['[' || s."end" || ']']) AS functions,
    coalesce(n.names[-1], '[' || s."end" || ']') AS leaf,
    array_to_string(coalesce(n.names, ['[' || s."end" || ']']), ';') AS folded
FROM stacks s LEFT JOIN named n ON n.stack = s.stack;

-- Scaling. Samples say where time went, exact sums say how much of it.

-- Exact sums of every site, with whom they are about. A site read a little later than its thread
-- may claim more than the thread's own sum: then all sites of the thread are scaled down to it.
CREATE OR REPLACE TEMP VIEW site_sums AS
WITH sums AS (
    SELECT
        site,
        sum(blocked_ns) AS blocked_ns,
        sum(runnable_ns) AS runnable_ns,
        sum(count) AS count,
        max(max_ns) AS max_ns
    FROM site_times GROUP BY site
),
claimed AS (
    SELECT
        s.site, s.thread, t.process, t.name, s.reason, s.syscall, s.pc, u.count, u.max_ns,
        coalesce(u.blocked_ns, 0)::DOUBLE AS blocked_ns,
        coalesce(u.runnable_ns, 0)::DOUBLE AS runnable_ns,
        t.blocked_ns / nullif(sum(u.blocked_ns) OVER own, 0) AS blocked_share,
        t.runnable_ns / nullif(sum(u.runnable_ns) OVER own, 0) AS runnable_share
    FROM sites s
    JOIN threads t ON t.thread = s.thread
    LEFT JOIN sums u ON u.site = s.site
    WINDOW own AS (PARTITION BY s.thread)
)
SELECT
    * EXCLUDE (blocked_ns, runnable_ns, blocked_share, runnable_share),
    blocked_ns * least(1, coalesce(blocked_share, 1)) AS blocked_ns,
    runnable_ns * least(1, coalesce(runnable_share, 1)) AS runnable_ns
FROM claimed;

-- What share of a site's time belongs to which stack: in proportion to the weights of the site's
-- samples, equally when all weights are 0. A site without a sample borrows those of its like: sites
-- of the process' threads of the same name with the same reason and system call, else those of the
-- whole process. With neither, the stack is NULL.
CREATE OR REPLACE TEMP VIEW site_shares AS
WITH taken AS (
    SELECT u.site, u.process, u.name, u.reason, u.syscall, p.stack,
        sum(p.weight_ns) AS weight_ns, count(*) AS samples
    FROM samples p JOIN site_sums u ON u.site = p.site
    GROUP BY ALL
),
lenders AS (
    SELECT 'site ' || site AS lender, stack, sum(weight_ns) AS weight_ns, sum(samples) AS samples
    FROM taken GROUP BY ALL
    UNION ALL
    SELECT concat_ws('|', 'name', process, reason, syscall, name), stack, sum(weight_ns), sum(samples)
    FROM taken GROUP BY ALL
    UNION ALL
    SELECT concat_ws('|', 'process', process, reason, syscall), stack, sum(weight_ns), sum(samples)
    FROM taken GROUP BY ALL
),
shares AS (
    SELECT lender, stack,
        CASE WHEN sum(weight_ns) OVER own = 0
            THEN samples / sum(samples) OVER own
            ELSE weight_ns / sum(weight_ns) OVER own
        END AS share
    FROM lenders
    WINDOW own AS (PARTITION BY lender)
),
known AS (SELECT DISTINCT lender FROM lenders),
chosen AS (
    SELECT u.site, coalesce(own.lender, alike.lender, whole.lender) AS lender
    FROM site_sums u
    LEFT JOIN known own ON own.lender = 'site ' || u.site
    LEFT JOIN known alike ON alike.lender = concat_ws('|', 'name', u.process, u.reason, u.syscall, u.name)
    LEFT JOIN known whole ON whole.lender = concat_ws('|', 'process', u.process, u.reason, u.syscall)
)
SELECT c.site, s.stack, coalesce(s.share, 1) AS share
FROM chosen c LEFT JOIN shares s ON s.lender = c.lender;

-- What share of a thread's running time belongs to which stack: in proportion to the weights of its
-- running samples; a thread that ran for less than 20 periods shares the samples of all such
-- threads of the same process and name. Without any sample the stack is NULL.
CREATE OR REPLACE TEMP VIEW running_shares AS
WITH pools AS (
    SELECT thread,
        CASE WHEN running_ns >= 20 * (SELECT (json ->> '$.period_ns')::UBIGINT FROM meta)
            THEN 'thread ' || thread
            ELSE concat_ws('|', 'name', process, name)
        END AS pool
    FROM threads
),
taken AS (
    SELECT o.pool, p.stack, sum(p.weight_ns) AS weight_ns, count(*) AS samples
    FROM samples p JOIN pools o ON o.thread = p.thread
    WHERE p.state = 'running'
    GROUP BY ALL
),
shares AS (
    SELECT pool, stack,
        CASE WHEN sum(weight_ns) OVER own = 0
            THEN samples / sum(samples) OVER own
            ELSE weight_ns / sum(weight_ns) OVER own
        END AS share
    FROM taken
    WINDOW own AS (PARTITION BY pool)
)
SELECT o.thread, s.stack, coalesce(s.share, 1) AS share
FROM pools o LEFT JOIN shares s ON s.pool = o.pool;

-- Every thread's time, divided completely: state, reason and system call of waits, stack (NULL: none
-- was taken). Adds up to running, runnable, blocked and lost of `threads`, thread by thread.
CREATE OR REPLACE TEMP VIEW weighted_stacks AS
WITH waits AS (
    SELECT u.thread, u.reason, u.syscall, h.stack,
        u.blocked_ns * h.share AS blocked_ns, u.runnable_ns * h.share AS runnable_ns
    FROM site_sums u JOIN site_shares h ON h.site = u.site
),
known AS (
    SELECT thread, sum(blocked_ns) AS blocked_ns, sum(runnable_ns) AS runnable_ns
    FROM site_sums GROUP BY thread
),
parts AS (
    SELECT t.thread, 'running' AS state, '' AS reason, '' AS syscall, h.stack, t.running_ns * h.share AS weight_ns
    FROM threads t JOIN running_shares h ON h.thread = t.thread
    UNION ALL
    SELECT thread, 'blocked', reason, syscall, stack, blocked_ns FROM waits
    UNION ALL
    SELECT thread, 'runnable', '', syscall, stack, runnable_ns FROM waits
    UNION ALL
    SELECT t.thread, 'blocked', 'unknown', '', NULL, t.blocked_ns - coalesce(k.blocked_ns, 0)
    FROM threads t LEFT JOIN known k ON k.thread = t.thread
    UNION ALL
    SELECT t.thread, 'runnable', '', '', NULL, t.runnable_ns - coalesce(k.runnable_ns, 0)
    FROM threads t LEFT JOIN known k ON k.thread = t.thread
    UNION ALL
    SELECT thread, 'lost', '', '', NULL, lost_ns FROM threads
)
SELECT thread, state, reason, syscall, stack, sum(weight_ns) AS weight_ns
FROM parts
GROUP BY ALL
HAVING sum(weight_ns) >= 0.5;
