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

CREATE OR REPLACE TEMP VIEW futexes AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('futexes')
QUALIFY row_number() OVER (PARTITION BY futex ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW locks AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('locks')
QUALIFY row_number() OVER (PARTITION BY lock ORDER BY filename DESC, file_row_number DESC) = 1;

CREATE OR REPLACE TEMP VIEW lock_blocks AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('lock_blocks');

CREATE OR REPLACE TEMP VIEW kernel_locks AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('kernel_locks');

CREATE OR REPLACE TEMP VIEW memory_places AS
SELECT * EXCLUDE (filename, file_row_number) FROM rows_of('memory_places');

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

-- What share of a site's blocked time, runnable time and waits belongs to which stack: in proportion
-- to the blocked and the runnable part of the weights of the site's samples, and to the waits that
-- they stand for; by whole weights when all parts are 0, equally when all weights are. A site without
-- a sample borrows those of its like: sites of the process' threads of the same name with the same
-- reason and system call, else those of the whole process. With neither, the stack is NULL.
CREATE OR REPLACE TEMP VIEW site_shares AS
WITH stays AS (
    SELECT site, start_ns + blocked_ns + runnable_ns AS time_ns,
        max(blocked_ns) AS blocked_ns, nullif(max(blocked_ns + runnable_ns), 0) AS ns
    FROM slices WHERE stack IS NOT NULL
    GROUP BY ALL
),
split AS (
    SELECT p.site, p.stack, p.weight_ns,
        coalesce(p.weight_ns * (y.blocked_ns / y.ns), p.weight_ns) AS blocked_ns,
        coalesce(p.weight_ns * (1 - y.blocked_ns / y.ns), p.weight_ns) AS runnable_ns,
        coalesce(p.weight_ns / y.ns, 1) AS waits
    FROM samples p LEFT JOIN stays y ON y.site = p.site AND y.time_ns = p.time_ns
    WHERE p.site IS NOT NULL
),
taken AS (
    SELECT u.site, u.process, u.name, u.reason, u.syscall, p.stack,
        sum(p.weight_ns) AS weight_ns, sum(p.blocked_ns) AS blocked_ns,
        sum(p.runnable_ns) AS runnable_ns, sum(p.waits) AS waits, count(*) AS samples
    FROM split p JOIN site_sums u ON u.site = p.site
    GROUP BY ALL
),
lent AS (
    SELECT 'site ' || site AS lender, * FROM taken
    UNION ALL
    SELECT concat_ws('|', 'name', process, reason, syscall, name), * FROM taken
    UNION ALL
    SELECT concat_ws('|', 'process', process, reason, syscall), * FROM taken
),
lenders AS (
    SELECT lender, stack, sum(weight_ns) AS weight_ns, sum(blocked_ns) AS blocked_ns,
        sum(runnable_ns) AS runnable_ns, sum(waits) AS waits, sum(samples) AS samples
    FROM lent GROUP BY ALL
),
shares AS (
    SELECT lender, stack,
        CASE WHEN sum(weight_ns) OVER own = 0
            THEN samples / sum(samples) OVER own
            ELSE weight_ns / sum(weight_ns) OVER own
        END AS share,
        coalesce(blocked_ns / nullif(sum(blocked_ns) OVER own, 0), share) AS blocked_share,
        coalesce(runnable_ns / nullif(sum(runnable_ns) OVER own, 0), share) AS runnable_share,
        coalesce(waits / nullif(sum(waits) OVER own, 0), share) AS waits_share
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
SELECT c.site, s.stack, coalesce(s.blocked_share, 1) AS blocked_share,
    coalesce(s.runnable_share, 1) AS runnable_share, coalesce(s.waits_share, 1) AS waits_share
FROM chosen c LEFT JOIN shares s ON s.lender = c.lender;

-- Whose samples of running threads count together: a thread that ran for at least 20 periods has its
-- own, others share those of all such threads of the same process and name.
CREATE OR REPLACE TEMP VIEW running_pools AS
SELECT thread, running_ns, voluntary_switches + involuntary_switches AS switches,
    CASE WHEN running_ns >= 20 * (SELECT (json ->> '$.period_ns')::UBIGINT FROM meta)
        THEN 'thread ' || thread
        ELSE concat_ws('|', 'name', process, name)
    END AS pool
FROM threads;

-- How long a thread ran where no stack can be taken (interrupts are off): on its way to sleep. What
-- the samples of all threads leave of the running time, per switch, is joined with what those of the
-- thread's pool leave, in inverse proportion to the variances.
CREATE OR REPLACE TEMP VIEW switching AS
WITH known AS (
    SELECT
        (json ->> '$.period_ns')::DOUBLE AS period_ns,
        coalesce((json ->> '$.produced.running_stacks')::DOUBLE, 0) AS produced,
        coalesce((json ->> '$.losses.running_stacks')::DOUBLE, 0) AS lost,
        CASE WHEN lost > 0 AND lost < produced THEN produced / (produced - lost) ELSE 1 END AS factor
    FROM meta
),
claims AS (
    SELECT thread, sum(weight_ns) * any_value(factor) AS claimed,
        sum(weight_ns::DOUBLE * weight_ns) * any_value(factor * factor) AS squares
    FROM samples, known WHERE state = 'running'
    GROUP BY thread
),
everywhere AS (
    SELECT (SELECT sum(running_ns)::DOUBLE FROM threads) - coalesce(sum(c.claimed), 0) AS remainder,
        coalesce(sum(c.squares), 0) + any_value(k.period_ns * k.period_ns) AS variance,
        (SELECT greatest(sum(switches), 1)::DOUBLE FROM running_pools) AS switches
    FROM known k LEFT JOIN claims c ON true
),
each AS (
    SELECT CASE WHEN remainder > 2 * sqrt(variance)
        THEN least(remainder / switches, 50000) ELSE 0 END AS ns_per_switch
    FROM everywhere
),
pools AS (
    SELECT o.pool, sum(o.switches)::DOUBLE AS switches, sum(o.switches) * any_value(e.ns_per_switch) AS expected,
        sum(o.running_ns) - coalesce(sum(c.claimed), 0) AS remainder,
        coalesce(sum(c.squares), 0) + any_value(k.period_ns * k.period_ns) AS variance,
        (expected / 2) * (expected / 2) AS own_variance
    FROM running_pools o CROSS JOIN each e CROSS JOIN known k LEFT JOIN claims c ON c.thread = o.thread
    GROUP BY o.pool
)
SELECT o.thread,
    CASE WHEN p.expected > 0
        THEN least(o.running_ns, o.switches / p.switches * greatest(0, least(2 * p.expected,
            (p.expected * p.variance + p.remainder * p.own_variance) / (p.variance + p.own_variance))))
        ELSE 0
    END AS switching_ns
FROM running_pools o JOIN pools p ON p.pool = o.pool;

-- A thread's running time by stack: that of switching in proportion to how often it left the
-- processor at the stack, the rest in proportion to the weights of its pool's running samples.
-- Without any sample the stack of the rest is NULL. What was sampled at a stack whose innermost frame
-- spins was spent spinning; switching was not.
CREATE OR REPLACE TEMP VIEW running_stacks AS
WITH departures AS (
    SELECT u.thread, h.stack, sum(u.count * h.waits_share) AS waits
    FROM site_sums u JOIN site_shares h ON h.site = u.site
    WHERE h.stack IS NOT NULL
    GROUP BY ALL
    HAVING sum(u.count * h.waits_share) > 0
),
switched AS (
    SELECT d.thread, d.stack,
        s.switching_ns * d.waits / sum(d.waits) OVER (PARTITION BY d.thread) AS weight_ns
    FROM departures d JOIN switching s ON s.thread = d.thread
),
rest AS (
    SELECT o.thread, o.pool, o.running_ns - coalesce(s.weight_ns, 0) AS weight_ns
    FROM running_pools o
    LEFT JOIN (SELECT thread, sum(weight_ns) AS weight_ns FROM switched GROUP BY thread) s ON s.thread = o.thread
),
taken AS (
    SELECT o.pool, p.stack, sum(p.weight_ns) AS weight_ns, count(*) AS samples
    FROM samples p JOIN running_pools o ON o.thread = p.thread
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
SELECT thread, stack, weight_ns, false AS spinning FROM switched
UNION ALL
SELECT r.thread, s.stack, r.weight_ns * coalesce(s.share, 1), coalesce(f.spinning, false)
FROM rest r
LEFT JOIN shares s ON s.pool = r.pool
LEFT JOIN stacks k ON k.stack = s.stack
LEFT JOIN frames f ON f.frame = k.frames[-1];

-- Every thread's time, divided completely: state, reason and system call of waits, stack (NULL: none
-- was taken). Adds up to running, runnable, blocked and lost of `threads`, thread by thread.
CREATE OR REPLACE TEMP VIEW weighted_stacks AS
WITH waits AS (
    SELECT u.thread, u.reason, u.syscall, h.stack,
        u.blocked_ns * h.blocked_share AS blocked_ns, u.runnable_ns * h.runnable_share AS runnable_ns
    FROM site_sums u JOIN site_shares h ON h.site = u.site
),
known AS (
    SELECT thread, sum(blocked_ns) AS blocked_ns, sum(runnable_ns) AS runnable_ns
    FROM site_sums GROUP BY thread
),
parts AS (
    SELECT thread, 'running' AS state, '' AS reason, '' AS syscall, stack, weight_ns FROM running_stacks
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
    SELECT thread, 'stolen', '', '', NULL, stolen_ns FROM threads
    UNION ALL
    SELECT thread, 'lost', '', '', NULL, lost_ns FROM threads
)
SELECT thread, state, reason, syscall, stack, sum(weight_ns) AS weight_ns
FROM parts
GROUP BY ALL
HAVING sum(weight_ns) >= 0.5;
