-- Question: how long were locks waited for and held while somebody waited, and what of the waiting is charged to whom?
--
-- A row for each lock and thread that held it while others waited, the most blamed first.
WITH sums AS (
    SELECT
        lock,
        count(*) FILTER (part = 'block') AS blocks,
        count(*) FILTER (part = 'wait') AS waits,
        sum(end_ns - start_ns) FILTER (part = 'wait') AS waited_ns,
        avg(end_ns - start_ns) FILTER (part = 'wait') AS mean_wait_ns,
        quantile_disc(end_ns - start_ns, 0.99) FILTER (part = 'wait') AS p99_wait_ns,
        max(end_ns - start_ns) FILTER (part = 'wait') AS max_wait_ns,
        avg(end_ns - start_ns) FILTER (part = 'hold') AS mean_hold_ns,
        max(queue) FILTER (part = 'block') AS longest_queue,
        sum(unclaimed_ns) AS unclaimed_ns
    FROM lock_blocks
    GROUP BY lock
),
owners AS (
    SELECT lock, ns_tid, sum(blamed_ns) AS blamed_ns, count(*) AS holds
    FROM lock_blocks
    WHERE part = 'hold'
    GROUP BY lock, ns_tid
)
SELECT
    s.lock,
    p.name AS process,
    printf('0x%x', l.address) AS address,
    l.kind,
    s.blocks,
    s.waits,
    round(s.waited_ns / 1e6, 3) AS waited_ms,
    round(s.mean_wait_ns / 1e6, 3) AS mean_wait_ms,
    round(s.p99_wait_ns / 1e6, 3) AS p99_wait_ms,
    round(s.max_wait_ns / 1e6, 3) AS max_wait_ms,
    round(s.mean_hold_ns / 1e6, 3) AS mean_hold_ms,
    s.longest_queue,
    round(s.unclaimed_ns / 1e6, 3) AS unclaimed_ms,
    o.ns_tid AS owner,
    o.holds,
    round(o.blamed_ns / 1e6, 3) AS blamed_ms
FROM sums s
JOIN locks l ON l.lock = s.lock
JOIN processes p ON p.process = l.process
LEFT JOIN owners o ON o.lock = s.lock
ORDER BY o.blamed_ns DESC NULLS LAST, s.lock, o.ns_tid;
