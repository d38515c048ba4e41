"""Colours of the pages about accounts and keys, and times that do not wrap."""

import pytest

from tests.support.live import Service
from tests.system.browser.conftest import Open

# An account that has used 85% of its day, and has a chart and a rejection.
FILL = """
from django.utils import timezone
from accounts.models import EPOCH, Account, DailyUsage, QuotaUsage, Rejection
account = Account.objects.get(name={name!r})
now, key = timezone.now(), account.keys.get()
DailyUsage.objects.create(key=key, day=now.date(), admitted=850, rejected=3)
QuotaUsage.renew(account.pk)
QuotaUsage.current(account.pk).update(day=(now.date() - EPOCH).days, day_used=850)
Rejection.objects.create(
    request_id="req", rejected_at=now, account=account, key=key, reason="revoked", method="GET",
    route="/v1/pets/{{petId}}", address="2001:db8:1234:5678:9abc:def0:1234:5678",
)
print(account.pk, key.pk)
"""
LINES = """cell => {
    const words = document.createRange();
    words.selectNodeContents(cell);
    return words.getClientRects().length;
}"""
CONTRAST = """([colour, element]) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const luminance = (value) => {
        canvas.fillStyle = value;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let ancestor = document.querySelector(element);
    while (getComputedStyle(ancestor).backgroundColor === "rgba(0, 0, 0, 0)") {
        ancestor = ancestor.parentElement;
    }
    const both = [colour, getComputedStyle(ancestor).backgroundColor].map(luminance);
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""
TICKS = """() => {
    const chart = Chart.getChart(document.querySelector("canvas.chart"));
    return Object.values(chart.options.scales).map((scale) => scale.ticks.color);
}"""
BACKGROUND = "element => getComputedStyle(element).backgroundColor"


@pytest.fixture(scope="module")
def ids(shop: Service) -> tuple[str, str]:
    """The IDs of an account and its key."""
    name = "The Society for Rabbits, Hamsters and Mice"
    shop.issue(name, "free")
    account, key = shop.manage("shell", "--no-imports", "-c", FILL.format(name=name)).split()
    return account, key


def test_times_do_not_wrap(open_page: Open, ids: tuple[str, str]) -> None:
    for narrow in (False, True):
        page = open_page("/admin/accounts/rejection/", as_="root", narrow=narrow)
        assert page.locator("main tbody td").first.evaluate(LINES) == 1
        page = open_page("/admin/backoffice/auditentry/", as_="root", narrow=narrow)
        assert page.locator("#result_list .field-timestamp a").first.evaluate(LINES) == 1


def test_chart_labels_are_legible_and_high_usage_has_its_colour_in_both_themes(
    open_page: Open, ids: tuple[str, str]
) -> None:
    colours = set()
    for dark in (False, True):
        page = open_page(f"/admin/accounts/account/{ids[0]}/change/", as_="root", dark=dark)
        page.wait_for_load_state("load")
        for colour in page.evaluate(TICKS):
            assert page.evaluate(CONTRAST, [colour, "canvas.chart"]) >= 4.5
        colours.add(page.locator(".summary .usage-high").evaluate(BACKGROUND))
    assert len(colours) == 1
