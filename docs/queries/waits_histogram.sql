-- Question: how long were the waits, by reason? (one row per reason and power of ten)
-- Over the waits kept one by one: all long ones, of the short ones those that were sampled.
SELECT
    s.reason,
    pow(10, length(w.blocked_ns::VARCHAR) - 4) AS at_least_us,
    count(*) AS waits,
    round(sum(w.blocked_ns) / 1e6, 3) AS blocked_ms,
    bar(count(*), 0, max(count(*)) OVER (), 30) AS bar
FROM slices w JOIN sites s ON s.site = w.site
WHERE w.blocked_ns > 0
GROUP BY s.reason, at_least_us
ORDER BY s.reason, at_least_us;
