-- Question: what share of the time has a complete stack, and why do the others end where they end?
SELECT
    CASE WHEN w.state = 'running' THEN 'on CPU' ELSE 'off CPU' END AS place,
    coalesce(s."end", 'not_taken') AS stack_end,
    round(sum(w.weight_ns) / 1e6, 3) AS ms,
    round(100 * sum(w.weight_ns) / sum(sum(w.weight_ns)) OVER (PARTITION BY place), 3) AS percent
FROM weighted_stacks w LEFT JOIN stacks s ON s.stack = w.stack
GROUP BY place, stack_end
ORDER BY place, ms DESC, stack_end;
