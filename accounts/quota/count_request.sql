-- Takes steps 1, 2, 4 and 5 of the quota rule in one atomic statement: `clock` is step 1, `ends` and `counts`
-- are step 2, `decision` is step 4, and the outermost SELECT is step 5.
--
-- initial_count   0 for a banned key or if the first request reaches a threshold, else 1
-- threshold_80, threshold_100   usage that must not be reached before its warning is stored; 0 if it is

INSERT INTO accounts_quotacounter AS q
    (account_id, minute_ends, minute_used, day, day_used, day_here, seen_at, admitted)
VALUES (%(account)s, %(now)s + {MINUTE}, %(initial_count)s, %(now)s / {DAY}, %(initial_count)s,
    %(initial_count)s, %(now)s, %(initial_count)s = 1)
ON CONFLICT (account_id) DO UPDATE SET
    (minute_ends, minute_used, day, day_used, day_here, seen_at, admitted) = (
        SELECT
            CASE WHEN is_admitted AND now >= minute_end THEN now + {MINUTE} ELSE minute_end END,
            CASE WHEN is_admitted THEN minute_count + 1 ELSE minute_count END,
            today,
            CASE WHEN is_admitted THEN day_count + 1 ELSE day_count END,
            CASE WHEN is_admitted THEN day_count_here + 1 ELSE day_count_here END,
            now,
            is_admitted
        FROM (
            SELECT now, minute_end, minute_count, today, day_count, day_count_here,
                %(initial_count)s = 1 AND minute_count < %(per_minute)s AND day_count < %(per_day)s
                    AND day_count + 1 NOT IN (%(threshold_80)s, %(threshold_100)s) AS is_admitted
            FROM (
                SELECT now, minute_end, today,
                    CASE WHEN now >= minute_end THEN 0 ELSE q.minute_used END AS minute_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_used END AS day_count,
                    CASE WHEN today > q.day THEN 0 ELSE q.day_here END AS day_count_here
                FROM (
                    SELECT now,
                        CASE WHEN now BETWEEN q.day * {DAY} - {NIGHT_SKEW} AND q.day * {DAY}
                            THEN q.day ELSE now / {DAY} END AS today,
                        CASE WHEN q.minute_ends > now + {MINUTE} THEN now + {MINUTE}
                            ELSE q.minute_ends END AS minute_end
                    FROM (
                        SELECT CASE WHEN excluded.seen_at BETWEEN q.seen_at - {SKEW} AND q.seen_at
                            THEN q.seen_at ELSE excluded.seen_at END AS now
                    ) AS clock
                ) AS ends
            ) AS counts
        ) AS decision
    )
RETURNING minute_ends, minute_used, day, day_used, seen_at, admitted
