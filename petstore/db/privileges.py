"""What an operator must change if the database lacks privileges: rights to grant, or owners of files."""

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

INSUFFICIENT_PRIVILEGE = "42501"  # SQLSTATE
UNWRITABLE = ("SQLITE_READONLY", "SQLITE_CANTOPEN")
GRANTS = (
    "The owner of the database can grant what is missing. For migrate: "
    "GRANT USAGE, CREATE ON SCHEMA public TO {0}; For the service: "
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {0};"
)


def explain_failure(error: BaseException | None) -> str:
    """Return one or more sentences, or "" if the message of the error suffices."""
    while error is not None:
        if getattr(error, "sqlstate", None) == INSUFFICIENT_PRIVILEGE:
            return explain_missing_right()
        if getattr(error, "sqlite_errorname", "").startswith(UNWRITABLE):
            return describe_unwritable(find_database_files())
        error = error.__cause__ or error.__context__
    return ""


def explain_missing_right() -> str:
    role = settings.DATABASES["default"]["USER"] or "ROLE"
    return GRANTS.format('"{}"'.format(role.replace('"', '""')))


def find_database_files() -> list[Path]:
    """Return the folder of the SQLite file, the file, and those that SQLite keeps beside it."""
    file = Path(settings.DATABASES["default"]["NAME"]).absolute()
    return [file.parent, *sorted(file.parent.glob(f"{file.name}*"))]


def describe_unwritable(paths: Iterable[Path]) -> str:
    """Name those that this process can't write, with their owners. Returns "" if there are none."""
    owners = [
        f"{path} belongs to {get_user_name(path.stat().st_uid)}"
        for path in paths
        if not os.access(path, os.W_OK)
    ]
    user = get_user_name(os.geteuid())
    return f"{user} can't write: {', '.join(owners)}. Let {user} own and write it." if owners else ""


def get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # In a container, for example.
        return str(uid)
