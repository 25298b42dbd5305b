-- Question: who woke whom, how often, and out of how much waiting?
-- Over the waits kept one by one; kept_percent says what part of the waiter's blocked time they are.
WITH kept AS (
    SELECT
        t.name AS waiter,
        s.reason,
        CASE
            WHEN k.thread IS NOT NULL THEN k.name
            WHEN w.waker_name <> '' THEN w.waker_name
            ELSE '[nobody]'
        END AS waker,
        count(*) AS waits,
        sum(w.blocked_ns) AS blocked_ns,
        max(w.blocked_ns) AS max_ns
    FROM slices w
    JOIN threads t ON t.thread = w.thread
    JOIN sites s ON s.site = w.site
    LEFT JOIN threads k ON k.thread = w.waker_thread
    WHERE w.blocked_ns > 0
    GROUP BY ALL
),
exact AS (SELECT name, sum(blocked_ns) AS blocked_ns FROM threads GROUP BY name)
SELECT
    k.waiter,
    k.reason,
    k.waker,
    k.waits,
    round(k.blocked_ns / 1e6, 3) AS blocked_ms,
    round(k.max_ns / 1e6, 3) AS max_ms,
    round(100 * sum(k.blocked_ns) OVER (PARTITION BY k.waiter) / e.blocked_ns, 2) AS kept_percent
FROM kept k JOIN exact e ON e.name = k.waiter
ORDER BY k.blocked_ns DESC, k.waiter, k.waker;
