"""URLs of the pages for customers."""

from django.urls import path

from accounts.portal import views

app_name = "portal"
urlpatterns = [path("join/<slug:token>/", views.join, name="join")]
