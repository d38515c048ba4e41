"""URLs of the pages for customers."""

from django.urls import path

from accounts.portal import account_views, key_views, new_user_views, people_views

KEYS, PEOPLE = "<slug:public_id>/keys/", "<slug:public_id>/people/"

app_name = "portal"
urlpatterns = [
    path("", account_views.home, name="home"),
    path("join/<slug:token>/", new_user_views.JoinView.as_view(), name="join"),
    path("sign-up/", new_user_views.SignUpView.as_view(), name="sign-up"),
    path("<slug:public_id>/", account_views.overview, name="overview"),
    path(KEYS, key_views.keys, name="keys"),
    path(f"{KEYS}issue/", key_views.issue, name="issue-key"),
    path(f"{KEYS}<slug:key_id>/<slug:verb>/", key_views.change, name="change-key"),
    path("<slug:public_id>/requests/", account_views.requests, name="requests"),
    path(PEOPLE, people_views.people, name="people"),
    path(f"{PEOPLE}leave/", people_views.leave, name="leave"),
    path(f"{PEOPLE}<slug:row_id>/<slug:action>/", people_views.change, name="change-people"),
]
