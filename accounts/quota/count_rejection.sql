-- Takes step 6 of the quota rule: `request` is 6a, `counts` is 6b, `decision` is 6c.
--
-- The returned window_strikes are positive for the request that triggers a ban, and 0 for requests that find the
-- key already banned. Rejections before the last ban do not count, so the strikes are reset even if a
-- worker of the previous version lifts the ban.

INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level,
    refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, %(rejecting_until)s, %(now)s, 0, 1, 0)
ON CONFLICT (key_id) DO UPDATE SET
    (refusing_until, first_refusal_at, last_strike_at, window_refusals, window_strikes,
    banned_at, banned_until, ban_level) = (
        SELECT
            %(rejecting_until)s,
            CASE WHEN is_running THEN s.first_refusal_at ELSE %(now)s END,
            CASE WHEN NOT is_running THEN 0 WHEN is_strike THEN %(now)s ELSE s.last_strike_at END,
            rejection_count,
            CASE WHEN is_banned THEN 0 ELSE strike_count END,
            CASE WHEN triggers_ban THEN %(now)s ELSE s.banned_at END,
            CASE WHEN triggers_ban THEN %(now)s + CASE level {LEVELS} END
                ELSE s.banned_until END,
            CASE WHEN triggers_ban AND level < {MAX_LEVEL} THEN level + 1
                WHEN triggers_ban THEN level ELSE s.ban_level END
        FROM (
            SELECT is_running, is_strike, is_banned, rejection_count, strike_count, level,
                NOT is_banned AND strike_count >= {STRIKES_TO_BAN}
                    AND rejection_count >= %(rejections_to_ban)s AS triggers_ban
            FROM (
                SELECT is_running, is_strike, is_banned,
                    CASE WHEN is_running THEN s.window_refusals + 1 ELSE 1 END AS rejection_count,
                    CASE WHEN NOT is_running THEN 0 WHEN is_strike THEN s.window_strikes + 1
                        ELSE s.window_strikes END AS strike_count,
                    CASE WHEN clean_days >= s.ban_level THEN 0 ELSE s.ban_level - clean_days END AS level
                FROM (
                    SELECT
                        s.refusing_until = %(rejecting_until)s AND s.first_refusal_at > s.banned_at
                            AND %(now)s < s.first_refusal_at + {STRIKE_WINDOW} AS is_running,
                        %(now)s >= s.first_refusal_at + {FIRST_STRIKE_AFTER}
                            AND %(now)s >= s.last_strike_at + {STRIKE_INTERVAL} AS is_strike,
                        %(now)s < s.banned_until AS is_banned,
                        CASE WHEN %(now)s > s.banned_until
                            THEN (%(now)s - s.banned_until) / {STEP_BACK_AFTER} ELSE 0 END AS clean_days
                ) AS request
            ) AS counts
        ) AS decision
    )
RETURNING window_strikes, window_refusals, banned_until, ban_level
