"""What filtered lists are in the order of: the id, in a form that one index alone has.

PostgreSQL takes the rows that a filter finds for evenly spread over the table. So `ORDER BY id LIMIT 21`
looks cheap along the primary key, and where the rows are all at its far end, it walks the whole table. No
other index gives an order by `id + 0`, so the index that was made for the filter is the only quick way,
whatever the statistics say. A list with two filters has another form than the list with one of them, or the
index of the one would look almost as cheap for both.
"""

from django.db.models import BigIntegerField, Func


class Key(Func):
    """A form of the id."""

    arity = 1
    output_field = BigIntegerField()


class OneFilterKey(Key):
    """The key of a list with one filter."""

    template = "(%(expressions)s + 0)"


class TwoFilterKey(Key):
    """The key of a list with two filters."""

    template = "(0 + %(expressions)s)"
