-- Counts a peek (D39). Rejected peeks count as well: their minute is a fixed window.

INSERT INTO accounts_keystanding AS s
    (key_id, told_until, strikes, strikes_end, banned_at, banned_until, ban_level, looks, looks_end)
VALUES (%(key)s, 0, 0, 0, 0, 0, 0, 1, %(now)s + {MINUTE})
ON CONFLICT (key_id) DO UPDATE SET
    (looks, looks_end) = (
        SELECT CASE WHEN is_running THEN s.looks + 1 ELSE 1 END,
            CASE WHEN is_running THEN s.looks_end ELSE %(now)s + {MINUTE} END
        FROM (
            SELECT s.looks_end > %(now)s AND s.looks_end <= %(now)s + {MINUTE} + {SKEW} AS is_running
        ) AS minute
    )
RETURNING looks, looks_end
