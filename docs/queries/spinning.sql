-- Question: which functions ran and did nothing but wait there, called by whom, and for how long?
-- percent: of all running time of the process.
WITH running AS (
    SELECT t.process, t.name, r.stack, r.spinning, sum(r.weight_ns) AS weight_ns
    FROM running_stacks r JOIN threads t ON t.thread = r.thread
    GROUP BY ALL
),
whole AS (SELECT process, sum(weight_ns) AS weight_ns FROM running GROUP BY process)
SELECT
    p.name AS process,
    p.pid,
    r.name AS thread_name,
    n.functions[-1] AS function,
    coalesce(n.functions[-2], '') AS caller,
    round(sum(r.weight_ns) / 1e6, 3) AS spun_ms,
    round(100 * sum(r.weight_ns) / any_value(w.weight_ns), 2) AS percent
FROM running r
JOIN processes p ON p.process = r.process
JOIN whole w ON w.process = r.process
JOIN stack_names n ON n.stack = r.stack
WHERE r.spinning
GROUP BY p.process, p.name, p.pid, r.name, n.functions[-1], n.functions[-2]
ORDER BY spun_ms DESC, process, thread_name, function, caller;
