"""The URLs of the API, the health checks and the metrics."""

from django.urls import path, re_path

from accounts.events.views import EventViewSet
from accounts.views import AccountViewSet
from inventory.views import CategoryViewSet, OrderViewSet, PetBatchViewSet, PetViewSet
from petstore.api.views import UnknownPathView
from petstore.health import views as health

api = [
    path("v1/account", AccountViewSet.as_view({"get": "retrieve"}), name="account"),
    path("v1/pets", PetViewSet.as_view({"get": "list", "post": "create"}), name="pets"),
    path("v1/pets/batch", PetBatchViewSet.as_view({"post": "create"}), name="pet-batch"),
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
    re_path(r"^v1(?:/|\Z)", UnknownPathView.as_view()),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
