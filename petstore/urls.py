"""The whole map of the service."""

from functools import partial

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from accounts.events.views import EventViewSet
from accounts.models import Plan
from accounts.views import AccountViewSet
from inventory.views import CategoryViewSet, OrderViewSet, PetViewSet
from petstore.api.openapi import views
from petstore.api.views import NothingHere
from petstore.observability.health import readiness
from petstore.web import api_changes, docs, home, probes, search, status, well_known
from petstore.web.error_pages import error_page

api = [
    path("v1/account", AccountViewSet.as_view({"get": "retrieve"}), name="account"),
    path("v1/pets", PetViewSet.as_view({"get": "list", "post": "create"}), name="pets"),
    path("v1/pets/<str:petId>", PetViewSet.as_view({"get": "retrieve"}), name="pet"),
    path("v1/store/orders", OrderViewSet.as_view({"get": "list", "post": "create"}), name="orders"),
    path(
        "v1/store/orders/<str:orderId>",
        OrderViewSet.as_view({"get": "retrieve", "delete": "destroy"}),
        name="order",
    ),
    path("v1/categories", CategoryViewSet.as_view({"get": "list"}), name="categories"),
    path("v1/events", EventViewSet.as_view({"get": "list"}), name="events"),
]

urlpatterns = [
    *api,
    re_path(r"^v1(?:/|\Z)", NothingHere.as_view()),
    path("", home.Home.as_view(plans=Plan.objects.all, readiness=readiness), name="home"),
    path("status", status.Status.as_view(), name="status"),
    path("docs/search", search.search, name="docs-search"),
    path("docs/changes.atom", api_changes.ApiChanges(), name="docs-changes-feed"),
    path("docs", docs.reference, name="docs"),
    *(path(f"docs/{page}", docs.guide, {"page": page}, name=f"docs-{page}") for page in docs.GUIDES),
    path("docs/<slug:page>.md", docs.guide_as_markdown, name="docs-markdown"),
    path("docs/", RedirectView.as_view(pattern_name="docs", permanent=True)),
    path("docs/<slug:page>/", docs.without_slash),
    path("openapi.json", views.openapi_json, name="openapi"),
    path("openapi.yaml", views.openapi_yaml, name="openapi-yaml"),
    path("llms.txt", well_known.llms_txt, name="llms-txt"),
    path("robots.txt", well_known.robots_txt),
    path(".well-known/api-catalog", well_known.api_catalog, name="api-catalog"),
    path(".well-known/security.txt", well_known.security_txt, name="security-txt"),
    path("favicon.ico", RedirectView.as_view(url=static("petstore/favicon.svg"))),
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("metrics", probes.metrics, name="metrics"),
    path("admin/", admin.site.urls),
]

handler400 = partial(error_page, status=400)
handler403 = partial(error_page, status=403)
handler404 = partial(error_page, status=404)
handler500 = partial(error_page, status=500)
