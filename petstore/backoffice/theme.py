"""How the back office looks: settings of Unfold, the admin's theme."""

from django.templatetags.static import static

UNFOLD = {
    "SITE_TITLE": "Pet Store",
    "SITE_HEADER": "Pet Store",
    "SITE_SUBHEADER": "Back office",
    "SITE_SYMBOL": "pets",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("petstore/favicon.svg")}
    ],
    "SHOW_BACK_BUTTON": True,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "petstore.backoffice.navigation.environment",
    "DASHBOARD_CALLBACK": "petstore.backoffice.dashboard.home",
    "SIDEBAR": {"navigation": "petstore.backoffice.navigation.navigation"},
    "ACCOUNT": {"navigation": "petstore.backoffice.navigation.account_links"},
    "STYLES": [lambda request: static("petstore/backoffice.css")],
    "SCRIPTS": [
        lambda request: static("petstore/expressions.js"),
        lambda request: static("petstore/keyboard.js"),
        lambda request: static("petstore/labels.js"),
    ],
}
