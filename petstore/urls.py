"""The whole map of the service."""

from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularSwaggerView

from accounts.readiness import readyz
from inventory.order_views import OrderViewSet
from inventory.views import CategoryViewSet, PetViewSet
from petstore import document, pages
from petstore.api import NothingHere
from petstore.metrics import metrics

api = [
    path("pets", PetViewSet.as_view({"get": "list", "post": "create"}), name="pets"),
    path("pets/<str:petId>", PetViewSet.as_view({"get": "retrieve"}), name="pet"),
    path("store/orders", OrderViewSet.as_view({"get": "list", "post": "create"}), name="orders"),
    path(
        "store/orders/<str:orderId>",
        OrderViewSet.as_view({"get": "retrieve", "delete": "destroy"}),
        name="order",
    ),
    path("categories", CategoryViewSet.as_view({"get": "list"}), name="categories"),
]

urlpatterns = [
    path("v1/", include(api)),
    re_path(r"^v1(?:/|\Z)", NothingHere.as_view()),
    path("", pages.home, name="home"),
    # Reading the documentation costs no quota: it needs no key and counts for nobody.
    path("docs", SpectacularSwaggerView.as_view(url_name="openapi", throttle_classes=[]), name="docs"),
    path("openapi.json", document.openapi_json, name="openapi"),
    path("openapi.yaml", document.openapi_yaml, name="openapi-yaml"),
    path("healthz", pages.healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
]

handler400 = pages.bad_request
handler403 = pages.permission_denied
handler404 = pages.page_not_found
handler500 = pages.server_error
