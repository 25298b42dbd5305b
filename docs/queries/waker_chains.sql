-- Question: what were the longest waits that a thread ended really waiting for, three wakers back?
-- A waker that slept during the wait was itself waiting: its last sleep that ended in the wait, and
-- whoever ended that, is the next hop.
WITH RECURSIVE waits AS (
    SELECT
        row_number() OVER (ORDER BY blocked_ns DESC, start_ns, thread) AS wait,
        thread, site, start_ns, start_ns + blocked_ns AS woken_ns, blocked_ns, waker_thread, waker_name
    FROM slices
    WHERE blocked_ns > 0
),
hops AS (
    SELECT wait AS root, 0 AS hop, wait, thread, site, start_ns, woken_ns, blocked_ns, waker_thread, waker_name
    FROM (SELECT * FROM waits WHERE waker_thread IS NOT NULL ORDER BY wait LIMIT 20)
    UNION ALL
    SELECT * FROM (
        SELECT h.root, h.hop + 1, w.wait, w.thread, w.site, w.start_ns, w.woken_ns, w.blocked_ns, w.waker_thread, w.waker_name
        FROM hops h
        JOIN waits w ON w.thread = h.waker_thread AND w.woken_ns > h.start_ns AND w.woken_ns <= h.woken_ns
        WHERE h.hop < 3
        QUALIFY row_number() OVER (PARTITION BY h.root ORDER BY w.woken_ns DESC, w.wait) = 1
    )
),
links AS (
    SELECT h.root, h.hop, h.wait, h.blocked_ns, h.waker_name,
        t.name || ' (' || t.tid || ') ' || s.reason || ' ' || round(h.blocked_ns / 1e6, 3) || ' ms' AS link
    FROM hops h
    JOIN threads t ON t.thread = h.thread
    JOIN sites s ON s.site = h.site
)
SELECT
    root,
    max(hop) AS hops,
    round(max(blocked_ns) FILTER (hop = 0) / 1e6, 3) AS blocked_ms,
    string_agg(link, ' <- ' ORDER BY hop)
        || ' <- ' || coalesce(nullif(arg_max(waker_name, hop), ''), '[nobody]') AS chain,
    list(wait ORDER BY hop) AS waits
FROM links
GROUP BY root
ORDER BY root;
