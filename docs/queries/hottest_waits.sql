-- Question: at which stacks did threads wait longest in all, and for what?
SELECT
    p.name AS process,
    t.name AS thread_name,
    w.reason,
    w.syscall,
    round(sum(w.weight_ns) / 1e6, 3) AS blocked_ms,
    coalesce(n.folded, '[no stack taken]') AS folded
FROM weighted_stacks w
JOIN threads t ON t.thread = w.thread
JOIN processes p ON p.process = t.process
LEFT JOIN stack_names n ON n.stack = w.stack
WHERE w.state = 'blocked'
GROUP BY ALL
ORDER BY blocked_ms DESC, folded
LIMIT 30;
