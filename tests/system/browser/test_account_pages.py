"""Colours of the back office that axe-core does not check."""

from tests.support.live import Service
from tests.system.browser.conftest import Open

# An account that has used 85% of its day, and has a chart.
FILL = """
from django.utils import timezone
from accounts.models import EPOCH, Account, DailyUsage, QuotaUsage
account = Account.objects.get(name={name!r})
now, key = timezone.now(), account.keys.get()
DailyUsage.objects.create(key=key, day=now.date(), admitted=850, rejected=3)
QuotaUsage.renew(account.pk)
QuotaUsage.current(account.pk).update(day=(now.date() - EPOCH).days, day_used=850)
print(account.pk)
"""
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


def test_chart_labels_are_legible_and_high_usage_has_its_colour_in_both_themes(
    shop: Service, open_page: Open
) -> None:
    name = "The Society for Rabbits"
    shop.issue(name, "free")
    account = shop.manage("shell", "--no-imports", "-c", FILL.format(name=name)).strip()
    colours = set()
    for dark in (False, True):
        page = open_page(f"/admin/accounts/account/{account}/change/", as_="root", dark=dark)
        page.wait_for_load_state("load")
        for colour in page.evaluate(TICKS):
            assert page.evaluate(CONTRAST, [colour, "canvas.chart"]) >= 4.5
        colours.add(page.locator(".summary .usage-high").evaluate(BACKGROUND))
    assert len(colours) == 1
