"""Rules for all commands: help with examples and exit statuses, and output that controls no terminal."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class

from accounts.keys import key_format
from accounts.models import Account, ApiKey, RateLimitState
from petstore.management.base import DocumentedCommand
from tests.support.commands import run
from tests.support.live import ROOT

pytestmark = pytest.mark.same_on_both
OWN_COMMANDS = sorted(
    (app, name)
    for name, app in get_commands().items()
    if isinstance(app, str) and app.split(".")[0] in {"petstore", "accounts", "inventory"}
)
WITHOUT_JSON = {"serve", "deliver_webhooks"}


# --- Help ----------------------------------------------------------------------------------------


def split_options(line: str, name: str) -> list[str]:
    """Split the options of an example, without shell redirections."""
    words = shlex.split(line.partition(f"manage.py {name}")[2])
    ends = [position for position, word in enumerate(words) if word in {"|", ">"}]
    return words[: min(ends, default=len(words))]


def test_command_table_lists_every_command() -> None:
    assert {"issue_key", "import_pets", "serve", "listen"} <= {name for _, name in OWN_COMMANDS}
    rows = re.findall(r"^\| `([a-z_]+)", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert {name for _, name in OWN_COMMANDS} <= set(rows) <= get_commands().keys()


@pytest.mark.parametrize(("app", "name"), OWN_COMMANDS)
def test_help_describes_options_examples_and_exit_statuses(app: str, name: str) -> None:
    command = load_command_class(app, name)
    assert isinstance(command, DocumentedCommand)
    parser = command.create_parser("manage.py", name)
    _, _, examples = parser.format_help().partition("\nexamples:\n")
    examples, _, statuses = examples.partition("\nexit status:\n")
    assert f"manage.py {name}" in examples
    assert {0, 1, 2} <= {int(status) for status in re.findall(r"^  (\d+)  \S", statuses, re.M)}
    lines = [line.strip() for line in command.examples.strip().splitlines()]
    assert lines
    for line in lines:
        assert len(line) <= 100
        options = parser.parse_args(split_options(line, name))
        if name in {"narrow_key", "revoke_key", "rotate_key", "unban_key"}:
            assert re.fullmatch(r"[0-9A-Za-z]{14}", options.id)
    assert not [action.dest for action in parser._actions if not action.help]
    assert ("--json" in parser._option_string_actions) is (name not in WITHOUT_JSON)


# --- Terminals -----------------------------------------------------------------------------------

HOSTILE = "a\x1b[2J\x07\r\x7f\x9b31m\u202e\u2066\u200f\u2028\nb"
ESCAPED = r"a\u001b[2J\u0007\u000d\u007f\u009b31m\u202e\u2066\u200f\u2028\u000ab"


@pytest.fixture
def hostile_key(account: Account, issue: Any) -> ApiKey:
    """A key with names that contain terminal control characters."""
    key, _ = issue(name=HOSTILE)
    Account.objects.update(name=HOSTILE)
    return ApiKey.objects.get(pk=key.pk)


def test_names_cannot_control_the_terminal(hostile_key: ApiKey, tmp_path: Path) -> None:
    leak = tmp_path / HOSTILE
    leak.write_text(key_format.generate("live", "a" * 8).text)
    ban = {"banned_at": 0, "banned_until": 4_000_000_000_000_000, "ban_level": 1}
    RateLimitState.objects.update_or_create(key=hostile_key, defaults=ban)
    reason = ("--reason", "x")
    for command in (
        ("list_keys",), ("scan_keys", str(leak)), ("unban_key", hostile_key.public_id, *reason),
        ("issue_key", "--account", HOSTILE), ("rotate_key", hostile_key.public_id),
        ("narrow_key", hostile_key.public_id, "--scopes", "pets:read"),
        ("suspend_account", HOSTILE, *reason), ("suspend_account", HOSTILE, "--lift", *reason),
        ("revoke_key", hostile_key.public_id, *reason),
    ):  # fmt: skip
        printed = run(*command)
        assert ESCAPED in printed or command[0] == "rotate_key"
        assert not [char for char in printed if not char.isprintable() and char != "\n"], command
    assert len(run("list_keys").splitlines()) == 1 + ApiKey.objects.count()


@pytest.mark.parametrize(
    "command",
    [
        ("list_keys", "--account", HOSTILE), ("revoke_key", HOSTILE, "--reason", "x"),
        ("narrow_key", HOSTILE),
        ("suspend_account", HOSTILE, "--reason", "x"), ("scan_keys", HOSTILE),
        ("import_pets", f"{HOSTILE}.csv"), ("export_pets", f"/{HOSTILE}/x.csv"),
        ("export_pets", "--category", HOSTILE), ("listen", HOSTILE, "--key", "x"),
        ("serve", "--host", HOSTILE),
        ("import_pets", "x.csv", HOSTILE), ("export_pets", f"--{HOSTILE}"),
    ],
)  # fmt: skip
def test_errors_cannot_control_the_terminal(
    db: None, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit):
        load_command_class(get_commands()[command[0]], command[0]).run_from_argv(["manage.py", *command])
    output = capsys.readouterr().err
    assert "b" in output
    assert not [char for char in output if not char.isprintable() and char != "\n"]
    assert "\nb" not in output
