"""All URLs of the service."""

from functools import partial

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView

from accounts.models import Plan
from inventory import order_pages
from petstore import api_urls, compatibility
from petstore.api.openapi import views
from petstore.health.checks import check_readiness
from petstore.health.feeds import StatusFeed
from petstore.health.models import Incident
from petstore.health.views import StatusView
from petstore.site import client_packages, docs, home, postman, search, well_known
from petstore.site.error_pages import error_page
from petstore.site.feeds import ChangesFeed

urlpatterns = [
    *api_urls.urlpatterns,
    path(
        "",
        home.HomeView.as_view(
            get_plans=Plan.objects.all,
            check_readiness=check_readiness,
            count_open_incidents=Incident.objects.count_open,
        ),
        name="home",
    ),
    path("status", StatusView.as_view(), name="status"),
    path("docs/search", search.search, name="docs-search"),
    path("docs", docs.reference, name="docs"),
    *(path(f"docs/{page}", docs.guide, {"page": page}, name=f"docs-{page}") for page in docs.GUIDES),
    path("docs/operations/<slug:operation_id>", docs.operation, name="docs-operation"),
    path("docs/operations/<slug:operation_id>.md", docs.operation, {"markdown": True}, "docs-operation-md"),
    path("docs/SKILL.md", well_known.skill_md, name="skill-md"),
    path("docs/<slug:page>.md", docs.guide, {"markdown": True}, name="docs-markdown"),
    path("docs/clients/<str:name>", client_packages.download, name="docs-client-package"),
    path("docs/", RedirectView.as_view(pattern_name="docs", permanent=True)),
    *(
        path(f"docs/{page}/", RedirectView.as_view(pattern_name=f"docs-{page}", permanent=True))
        for page in docs.GUIDES
    ),
    path("openapi.json", views.openapi_json, name="openapi"),
    path("docs/postman.json", postman.collection_json, name="postman"),
    path("docs/changes.rss", require_safe(ChangesFeed()), name="changes-feed"),
    path("status.rss", require_safe(StatusFeed()), name="status-feed"),
    path("openapi.yaml", views.openapi_yaml, name="openapi-yaml"),
    path("llms.txt", well_known.llms_txt, name="llms-txt"),
    path("sitemap.xml", well_known.sitemap_xml, name="sitemap"),
    path("robots.txt", well_known.robots_txt),
    path(".well-known/api-catalog", well_known.api_catalog, name="api-catalog"),
    path(".well-known/security.txt", well_known.security_txt, name="security-txt"),
    path("favicon.ico", RedirectView.as_view(url=static("petstore/favicon.svg"))),
    path("account/", include("petstore.sign_in.urls")),
    path("account/", include("accounts.portal.urls")),
    path(
        compatibility.REJECTIONS_PAGE,
        RedirectView.as_view(pattern_name="admin:accounts_rejection_changelist", query_string=True),
    ),
    path("account/<slug:public_id>/orders/", order_pages.orders, name="account-orders"),
    path("account/<slug:public_id>/orders/<str:order_id>/", order_pages.order, name="account-order"),
    path(
        "account/<slug:public_id>/orders/<str:order_id>/cancel/",
        order_pages.cancel,
        name="cancel-account-order",
    ),
    path("admin/", admin.site.urls),
]

handler400 = partial(error_page, status=400)
handler403 = partial(error_page, status=403)
handler404 = partial(error_page, status=404)
handler500 = partial(error_page, status=500)
