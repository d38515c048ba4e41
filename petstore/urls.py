"""The whole map of the service."""

from functools import partial

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from accounts.models import Plan
from inventory.views import CategoryViewSet, OrderViewSet, PetViewSet
from petstore.api.openapi import views
from petstore.api.views import NothingHere
from petstore.observability.health import readiness
from petstore.web import docs, home, probes
from petstore.web.error_pages import error_page

api = [
    path("v1/pets", PetViewSet.as_view({"get": "list", "post": "create"}), name="pets"),
    path("v1/pets/<str:petId>", PetViewSet.as_view({"get": "retrieve"}), name="pet"),
    path("v1/store/orders", OrderViewSet.as_view({"get": "list", "post": "create"}), name="orders"),
    path(
        "v1/store/orders/<str:orderId>",
        OrderViewSet.as_view({"get": "retrieve", "delete": "destroy"}),
        name="order",
    ),
    path("v1/categories", CategoryViewSet.as_view({"get": "list"}), name="categories"),
]

urlpatterns = [
    *api,
    re_path(r"^v1(?:/|\Z)", NothingHere.as_view()),
    path("", home.Home.as_view(plans=Plan.objects.all, readiness=readiness), name="home"),
    path("docs", docs.reference, name="docs"),
    *(path(f"docs/{page}", docs.guide, {"page": page}, name=f"docs-{page}") for page in docs.GUIDES),
    path("openapi.json", views.openapi_json, name="openapi"),
    path("openapi.yaml", views.openapi_yaml, name="openapi-yaml"),
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
