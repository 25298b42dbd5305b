-- Question: what was produced, what of it was lost, and was the recording cut short?
WITH produced AS (
    SELECT unnest(map_entries((json -> '$.produced')::MAP(VARCHAR, UBIGINT)), recursive := true) FROM meta
),
lost AS (
    SELECT unnest(map_entries((json -> '$.losses')::MAP(VARCHAR, UBIGINT)), recursive := true) FROM meta
)
SELECT
    coalesce(p.key, l.key) AS name,
    p.value AS produced,
    coalesce(l.value, 0) AS lost,
    round(100.0 * coalesce(l.value, 0) / nullif(p.value, 0), 4) AS lost_percent,
    (SELECT (json ->> '$.complete')::BOOLEAN FROM meta) AS complete
FROM produced p FULL JOIN lost l ON l.key = p.key
ORDER BY lost DESC, name;
