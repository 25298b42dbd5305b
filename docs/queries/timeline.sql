-- Question: when did which reason take the time? (one row per second and reason)
-- Sums of sites are read about once a second; time since the previous reading counts for the reading.
SELECT
    ((u.time_ns - (SELECT (json ->> '$.start_ns')::BIGINT FROM meta)) // 1000000000)::INTEGER AS second,
    CASE WHEN s.reason = '' THEN '[preempted]' ELSE s.reason END AS reason,
    round(sum(u.blocked_ns) / 1e6, 3) AS blocked_ms,
    round(sum(u.runnable_ns) / 1e6, 3) AS runnable_ms,
    sum(u.count) AS waits
FROM site_times u JOIN sites s ON s.site = u.site
GROUP BY ALL
ORDER BY second, blocked_ms DESC, reason;
