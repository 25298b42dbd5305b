-- Question: what does the whole recording look like as a flame graph of wall-clock time?
-- Lines of folded stacks, ns: COPY the first two columns to a file for any flame graph program.
SELECT
    concat_ws(';', p.name, t.name, coalesce(n.folded, '[no stack taken]'),
        '[' || w.state || CASE WHEN w.reason = '' THEN '' ELSE ' ' || w.reason END || ']') AS stack,
    round(sum(w.weight_ns))::BIGINT AS ns
FROM weighted_stacks w
JOIN threads t ON t.thread = w.thread
JOIN processes p ON p.process = t.process
LEFT JOIN stack_names n ON n.stack = w.stack
GROUP BY 1
ORDER BY stack;
