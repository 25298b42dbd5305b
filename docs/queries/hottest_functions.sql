-- Question: which functions used the processors most, by themselves and with what they called?
-- self: the function was the leaf. total: it was anywhere in the stack, counted once per stack.
WITH running AS (
    SELECT stack, sum(weight_ns) AS weight_ns FROM weighted_stacks WHERE state = 'running' GROUP BY stack
),
named AS (
    SELECT r.weight_ns, coalesce(n.functions, ['[no stack taken]']) AS functions
    FROM running r LEFT JOIN stack_names n ON n.stack = r.stack
),
self AS (SELECT functions[-1] AS function, sum(weight_ns) AS self_ns FROM named GROUP BY function),
total AS (
    SELECT function, sum(weight_ns) AS total_ns
    FROM (SELECT weight_ns, unnest(list_distinct(functions)) AS function FROM named)
    GROUP BY function
)
SELECT
    t.function,
    round(coalesce(s.self_ns, 0) / 1e6, 3) AS self_ms,
    round(100 * coalesce(s.self_ns, 0) / (SELECT sum(weight_ns) FROM running), 2) AS self_percent,
    round(t.total_ns / 1e6, 3) AS total_ms
FROM total t LEFT JOIN self s ON s.function = t.function
ORDER BY self_ms DESC, total_ms DESC, t.function
LIMIT 30;
