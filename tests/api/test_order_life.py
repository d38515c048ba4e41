"""Random operations of clients and staff: orders and pets stay consistent, D12-D15 and D31 hold."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from accounts.models import Account, Actor, ApiKey, PlanCode
from inventory.models import Category, Order, OrderEvent, Pet, PetEvent, PetStatus, TransitionError
from tests.conftest import Api
from tests.support.thorough import times

PETS = 3
LIVE = {"placed", "approved"}
SHIP_DATE = datetime(2026, 12, 1, 12, tzinfo=UTC)
PET_TRANSITIONS = {
    ("available", "pending"),
    ("available", "sold"),
    ("pending", "available"),
    ("pending", "sold"),
    ("sold", "available"),
}

numbers = st.integers(0, 99)  # Chooses an existing pet or order, modulo their count.


@dataclass
class Sale:
    """The expected state of an order."""

    account: int
    pet: int
    status: str = "placed"
    shipped: bool = False


class Shop(RuleBasedStateMachine):
    """A shop with three pets, two accounts and staff. A model predicts every response."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.pets: dict[int, str] = {}
        self.sales: dict[int, Sale] = {}
        self.sent: dict[tuple[int, str], tuple[int, bytes]] = {}  # Idempotency-Key: pet, first response.

    @initialize()
    def open(self) -> None:
        """Put pets on sale, and give two accounts a key each."""
        category = Category.objects.earliest("id")
        pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(PETS)]
        self.pets = {pet.pk: "available" for pet in pets}
        self.clients = []
        for name in ("Acme Pets", "Other Pets"):
            limits = {"per_minute": 10**9, "per_day": 10**9}
            account = Account.objects.create(name=name, plan_id=PlanCode.ENTERPRISE, **limits)
            self.clients.append(Api(ApiKey.objects.issue(account, by=Actor("tests"))[1]))

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    def pet(self, number: int) -> int:
        return list(self.pets)[number % PETS]

    def sale(self, number: int) -> tuple[int, Sale] | None:
        """Choose an order, if there is one."""
        sales = list(self.sales.items())
        return sales[number % len(sales)] if sales else None

    # --- Clients ---

    @rule(buyer=st.integers(0, 1), number=numbers, key=st.sampled_from([None, None, "a", "b"]))
    def order(self, buyer: int, number: int, key: str | None) -> None:
        """Order a pet, sometimes with an Idempotency-Key, which may be reused."""
        pet = self.pet(number)
        headers = {} if key is None else {"Idempotency_Key": key}
        response = self.clients[buyer]("POST", "/store/orders", {"petId": pet}, **headers)
        if key is not None and (buyer, key) in self.sent:
            first_pet, first_response = self.sent[buyer, key]
            if pet == first_pet:
                assert (response.status_code, response.content) == (201, first_response)
                assert response.headers["Idempotent-Replayed"] == "true"
            else:
                assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
        elif self.pets[pet] != "available":
            assert (response.status_code, response.json()["code"]) == (409, "pet_not_available")
        else:
            assert response.status_code == 201
            self.pets[pet] = "pending"
            self.sales[response.json()["id"]] = Sale(buyer, pet)
            if key is not None:
                self.sent[buyer, key] = pet, response.content

    @rule(buyer=st.integers(0, 1), number=numbers, times=st.integers(1, 2))
    def cancel(self, buyer: int, number: int, times: int) -> None:
        """Cancel an order, possibly of another account, once or twice."""
        if (choice := self.sale(number)) is None:
            return
        order, sale = choice
        for _ in range(times):
            response = self.clients[buyer]("DELETE", f"/store/orders/{order}")
            if sale.account != buyer:
                assert (response.status_code, response.json()["code"]) == (404, "order_not_found")
            elif sale.status in {"approved", "delivered"}:
                assert (response.status_code, response.json()["code"]) == (409, "order_not_cancellable")
            else:
                assert (response.status_code, response.content) == (204, b"")
                self.release_pet(sale)

    # --- Staff ---

    def release_pet(self, sale: Sale) -> None:
        """Predict the cancellation of a live order."""
        if sale.status in LIVE:
            sale.status = "cancelled"
            self.pets[sale.pet] = "available"

    @rule(number=numbers, verb=st.sampled_from(["approve", "ship", "ship on a date", "deliver", "cancel"]))
    def handle(self, number: int, verb: str) -> None:
        """Approve, ship, deliver or cancel an order, whether allowed or not."""
        if (choice := self.sale(number)) is None:
            return
        order, sale = choice
        allowed = {"approve": {"placed"}, "cancel": LIVE | {"cancelled"}}
        dates = {"ship_date": SHIP_DATE} if verb == "ship on a date" else {}
        act = partial(
            getattr(Order.objects.get(pk=order), verb.removesuffix(" on a date")), by="staff", **dates
        )
        if sale.status not in allowed.get(verb, {"approved"}) or (verb == "ship" and sale.shipped):
            with pytest.raises(TransitionError):
                act()
            return
        act()
        match verb:
            case "approve":
                sale.status = "approved"
            case "ship" | "ship on a date":
                sale.shipped = True
            case "deliver":
                sale.status = "delivered"
                self.pets[sale.pet] = "sold"
            case "cancel":
                self.release_pet(sale)

    @rule(
        number=numbers, to_status=st.sampled_from(PetStatus), reason=st.sampled_from(["", " ", "Returned."])
    )
    def change_pet_status(self, number: int, to_status: PetStatus, reason: str) -> None:
        """Change the status of a pet by staff, whether allowed or not."""
        pet = self.pet(number)
        is_held = any(sale.pet == pet and sale.status in LIVE for sale in self.sales.values())
        lacks_reason = self.pets[pet] == "sold" and not reason.strip()
        row = Pet.objects.get(pk=pet)
        if is_held or lacks_reason or (self.pets[pet], str(to_status)) not in PET_TRANSITIONS:
            with pytest.raises(TransitionError):
                row.change_status(to_status, by="staff", reason=reason)
        else:
            row.change_status(to_status, by="staff", reason=reason)
            self.pets[pet] = str(to_status)

    # --- Invariants ---

    @invariant()
    def pets_and_orders_match_the_model(self) -> None:
        assert dict(Pet.objects.filter(pk__in=self.pets).values_list("pk", "status")) == self.pets
        statuses = dict(Order.objects.values_list("pk", "status"))
        assert statuses == {order: sale.status for order, sale in self.sales.items()}

    @invariant()
    def pet_of_a_live_order_is_pending_and_has_no_other_live_order(self) -> None:
        held = list(Order.objects.filter(status__in=LIVE).values_list("pet_id", "pet__status"))
        assert {status for _, status in held} <= {"pending"}
        assert len({pet for pet, _ in held}) == len(held)

    @invariant()
    def accounts_see_exactly_their_own_orders(self) -> None:
        for buyer, client in enumerate(getattr(self, "clients", [])):
            listed: list[dict[str, Any]] = client.get("/store/orders?limit=100").json()
            expected = {order: sale for order, sale in self.sales.items() if sale.account == buyer}
            assert [order["id"] for order in listed] == list(expected)
            for order in listed:
                sale = expected[order["id"]]
                assert (order["petId"], order["status"]) == (sale.pet, sale.status)
                assert order["complete"] is (sale.status == "delivered")
                assert (order["shipDate"] is not None) is sale.shipped
                assert order["shipDate"] is None or order["status"] != "placed"

    @invariant()
    def histories_are_continuous_and_end_in_the_current_status(self) -> None:
        for order, sale in self.sales.items():
            steps = list(OrderEvent.objects.filter(order=order).order_by("id"))
            assert check_history([(step.from_status, step.to_status) for step in steps], "") == sale.status
        for pet, status in self.pets.items():
            moves = list(PetEvent.objects.filter(pet=pet).order_by("id"))
            assert (
                check_history([(move.from_status, move.to_status) for move in moves], "available") == status
            )


def check_history(changes: list[tuple[str, str]], status: str) -> str:
    """Check that a history is continuous, and return its final status."""
    for from_status, to_status in changes:
        assert from_status == status
        status = to_status
    return status


def test_random_operations_never_break_the_rules_of_orders(db: None) -> None:
    run_state_machine_as_test(
        Shop, settings=settings(max_examples=times(30, 6), stateful_step_count=30, deadline=None)
    )
