"""Staff who revoke keys and lift bans, by command and in the back office, and check the effect."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.chaos.checks import Kind, Violation
from tests.chaos.client import Client, Reply
from tests.support.live import Service
from tests.support.preloaded import CommandRunner

LOGIN = "chaos", "correct horse battery staple"
TRIES = 6  # Connections to try a key on, more than there are workers.
TIMEOUT = 20.0  # Seconds for a command or a page.
BAN = "from tests.support.quota import ban_by_now; ban_by_now({!r})"
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


class Key(NamedTuple):
    """A key to revoke or ban."""

    key: str
    id: str
    row: int


class Staff:
    """A staff member with a terminal and a browser."""

    def __init__(self, service: Service, run: str) -> None:
        self._service = service
        self._run = run
        self._site = httpx.AsyncClient(base_url=service.url, timeout=TIMEOUT, follow_redirects=False)

    @classmethod
    @asynccontextmanager
    async def signed_in(cls, service: Service, run: str) -> AsyncIterator[Staff]:
        staff = cls(service, run)
        async with staff._site:
            response = await staff._submit(
                "/account/login/", dict(zip(("login", "password"), LOGIN, strict=True))
            )
            assert response.status_code == 302, response.text
            yield staff

    async def _submit(self, path: str, data: dict[str, str]) -> httpx.Response:
        """Submit the form of a page."""
        page = await self._site.get(path)
        token = TOKEN.search(page.text)
        if token is None:
            return page
        return await self._site.post(path, data=data | {"csrfmiddlewaretoken": token[1]})

    def _run_command(self, *arguments: str) -> bool:
        """Run manage.py; returns whether it succeeded in time."""
        with (
            Path(os.devnull).open("wb") as null,
            closing(CommandRunner(self._service.environment)) as runner,
        ):
            command = runner.start(*arguments, stdout=null, stderr=null)
            try:
                return command.wait(TIMEOUT) == 0
            except subprocess.TimeoutExpired:
                command.kill()
                return False

    async def _change(self, verb: str, key: Key, *, by_site: bool) -> bool:
        """Revoke or unban in the back office or by command; returns whether that was confirmed."""
        if not by_site:
            return await asyncio.to_thread(self._run_command, f"{verb}_key", key.id, "--reason", "Chaos")
        path = f"/admin/accounts/apikey/{key.row}/{verb}/"
        try:
            return (await self._submit(path, {"reason": "Chaos"})).status_code == 302
        except httpx.HTTPError:
            return False

    async def try_key(self, key: Key, times: int = TRIES) -> list[Reply]:
        """Use a key on separate connections."""
        replies = []
        for _ in range(times):
            client = Client(int(self._service.environment["PORT"]), key.key, self._run)
            replies.append(await client.send("GET", "/v1/pets?limit=1"))
            client.close()
        return replies

    async def revoke(self, key: Key, *, by_site: bool) -> bool:
        """Use a key, so that it is cached, and revoke it."""
        await self.try_key(key)
        return await self._change("revoke", key, by_site=by_site)

    async def check_revoked(self, keys: Iterable[tuple[Key, str]]) -> list[Violation]:
        """Check that keys, which were revoked in these ways, do not work."""
        found = []
        for key, how in keys:
            replies = await self.try_key(key)
            works = [reply for reply in replies if reply.status not in {401, 503}]
            if works:
                statuses = ", ".join(f"{reply.status} {reply.code}".rstrip() for reply in replies)
                detail = f"{key.id}, revoked {how}: {statuses}"
                found.append(Violation(Kind.REVOKED, works[0].request_id, detail))
        return found

    async def ban(self, key: Key) -> bool:
        """Make a key exceed its limit; returns whether it is banned."""
        await asyncio.to_thread(self._run_command, "shell", "--no-imports", "-c", BAN.format(key.key))
        return (await self.try_key(key, 1))[0].code == "api_key_banned"

    async def unban(self, key: Key, *, by_site: bool) -> list[Violation]:
        """Lift a ban, and check that it is no longer effective."""
        if not await self._change("unban", key, by_site=by_site):
            return []
        replies = await self.try_key(key)
        banned = [reply for reply in replies if reply.code == "api_key_banned"]
        how = "in the back office" if by_site else "by command"
        detail = f"{key.id}, unbanned {how}: {len(banned)} of {len(replies)} requests got api_key_banned"
        return [Violation(Kind.BANNED, banned[0].request_id, detail)] if banned else []
