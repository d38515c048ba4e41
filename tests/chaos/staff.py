"""Staff who revoke keys and lift bans, by command and in the back office, and check the effect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx

from tests.chaos.checks import Kind, Violation
from tests.chaos.client import Client, Reply
from tests.chaos.fill import PASSWORD, STAFF
from tests.support.hammer import lines_to_ban
from tests.support.live import ROOT, Service
from tests.support.packages import python

TRIES = 6  # Connections to try a key on, more than there are workers.
TIMEOUT = 20.0  # Seconds for a command or a page.
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
            response = await staff._submit("/account/login/", {"login": STAFF, "password": PASSWORD})
            assert response.status_code == 302, response.text
            yield staff

    async def _submit(self, path: str, data: dict[str, str]) -> httpx.Response:
        """Submit the form of a page."""
        page = await self._site.get(path)
        token = TOKEN.search(page.text)
        if token is None:
            return page
        return await self._site.post(path, data=data | {"csrfmiddlewaretoken": token[1]})

    async def _run_python(self, *arguments: str, text: str = "") -> bool:
        """Run Python with this standard input; returns whether it succeeded in time."""
        process = await asyncio.create_subprocess_exec(
            python(), *arguments, cwd=ROOT, env=self._service.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(TIMEOUT):
                await process.communicate(text.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
        return process.returncode == 0

    async def _change(self, verb: str, key: Key, *, by_site: bool) -> bool:
        """Revoke or unban in the back office or by command; returns whether that was confirmed."""
        if not by_site:
            return await self._run_python("manage.py", f"{verb}_key", key.id, "--reason", "Chaos")
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
        await self._run_python("-m", "tests.support.hammer", "1", "1", text=lines_to_ban(key.key))
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
