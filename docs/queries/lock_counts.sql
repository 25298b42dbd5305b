-- Question: which locks were acquired how often, how often were they not free, and how long were they waited for?
--
-- A word that is waited on belongs to the lock that begins there or at most 40 bytes before (the length of a
-- mutex of glibc and of musl); of read-write locks and condition variables the same, as far as they reach.
WITH waited AS (
    SELECT f.process, f.address, sum(u.count) AS waits, sum(u.blocked_ns) AS blocked_ns
    FROM site_times u
    JOIN sites s ON s.site = u.site
    JOIN futexes f ON f.futex = s.futex
    GROUP BY f.process, f.address
)
SELECT
    l.lock,
    p.name AS process,
    printf('0x%x', l.address) AS address,
    l.kind,
    l.mutex_type,
    l.acquired,
    l.contended,
    round(100.0 * l.contended / nullif(l.acquired, 0), 3) AS contended_percent,
    coalesce((
        SELECT sum(w.waits) FROM waited w
        WHERE w.process = l.process AND w.address BETWEEN l.address AND l.address + 39
    ), 0) AS waits,
    round(coalesce((
        SELECT sum(w.blocked_ns) FROM waited w
        WHERE w.process = l.process AND w.address BETWEEN l.address AND l.address + 39
    ), 0) / 1e6, 3) AS waited_ms
FROM locks l
JOIN processes p ON p.process = l.process
ORDER BY l.acquired DESC, l.lock;
