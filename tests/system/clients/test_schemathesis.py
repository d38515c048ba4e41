"""Schemathesis, with all its checks but one, finds no contradiction of the OpenAPI document.

The exception is `use_after_free`: it expects 404 for deleted resources, but DELETE cancels an order, which
remains.

SCHEMATHESIS_EXAMPLES is the number of random requests for each operation and phase; SCHEMATHESIS_SEED
chooses others. By default each run sends the same requests.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.live import ROOT, Service
from tests.support.thorough import times

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES") or times(50, 10))
SEED = os.environ.get("SCHEMATHESIS_SEED", "1")

# Orders of the account in every status: clients can only place and cancel.
ORDERS = """
from accounts.models import Account
from inventory.models import Order, Pet, PetStatus
account = Account.objects.get(name="Schemathesis")
for number, pet in enumerate(Pet.objects.filter(status=PetStatus.AVAILABLE).order_by("-id")[:20]):
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="test")
    if number % 4 == 1:
        order.cancel(by="test")
    if number % 4 >= 2:
        order.approve(by="test")
        order.ship(by="test")
    if number % 4 == 3:
        order.deliver(by="test")
"""


def test_schemathesis_finds_nothing(service: Service) -> None:
    service.manage("seed_demo", "--pets", "300")
    key = service.issue_high_limit_key("Schemathesis")
    service.manage("shell", "--no-imports", "-c", ORDERS)
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "tests.system.clients.schemathesis_hooks",
        "SCHEMATHESIS_URL": f"{service.url}/v1",
        "SCHEMATHESIS_KEY": key,
    }
    command: list[str | Path] = [
        Path(sys.executable).with_name("schemathesis"), "run", f"{service.url}/openapi.json",
        "--header", f"Authorization: Bearer {key}",
        "--checks", "all", "--exclude-checks", "use_after_free",
        "--phases", "examples,coverage,fuzzing,stateful", "--mode", "all",
        "--max-examples", str(EXAMPLES), "--seed", SEED, "--continue-on-failure",
        "--generation-database", "none", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env=environment, timeout=60 + 10 * EXAMPLES,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    # It also succeeds when it had nothing to do.
    document = httpx.get(f"{service.url}/openapi.json").json()
    operations = sum(len(path) for path in document["paths"].values())
    assert f"Tested: {operations}\n" in done.stdout
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}\n" in done.stdout
    cases = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert cases
    assert int(cases[1]) > EXAMPLES * operations
