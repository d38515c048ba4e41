"""URLs of the pages for customers."""

from django.urls import path

from accounts.portal import account_views, key_views, new_user_views, people_views, webhook_views

KEYS, PEOPLE = "<slug:public_id>/keys/", "<slug:public_id>/people/"
WEBHOOKS = "<slug:public_id>/webhooks/"
WEBHOOK = f"{WEBHOOKS}<slug:webhook_id>/"

app_name = "portal"
urlpatterns = [
    path("", account_views.home, name="home"),
    path("join/<slug:token>/", new_user_views.JoinView.as_view(), name="join"),
    path("sign-up/", new_user_views.SignUpView.as_view(), name="sign-up"),
    path("<slug:public_id>/", account_views.overview, name="overview"),
    path("<slug:public_id>/usage.csv", account_views.usage_csv, name="usage-csv"),
    path(KEYS, key_views.keys, name="keys"),
    path(f"{KEYS}issue/", key_views.issue, name="issue-key"),
    path(f"{KEYS}<slug:key_id>/", key_views.key, name="key"),
    path(f"{KEYS}<slug:key_id>/<slug:verb>/", key_views.change, name="change-key"),
    path(WEBHOOKS, webhook_views.webhooks, name="webhooks"),
    path(f"{WEBHOOKS}add/", webhook_views.add, name="add-webhook"),
    path(WEBHOOK, webhook_views.webhook, name="webhook"),
    path(f"{WEBHOOK}attempts/<str:attempt_id>/", webhook_views.attempt, name="webhook-attempt"),
    path(f"{WEBHOOK}<slug:verb>/", webhook_views.change, name="change-webhook"),
    path("<slug:public_id>/requests/", account_views.requests, name="requests"),
    path(PEOPLE, people_views.people, name="people"),
    path(f"{PEOPLE}leave/", people_views.leave, name="leave"),
    path(f"{PEOPLE}second-factor/", people_views.require_second_factor, name="require-second-factor"),
    path(f"{PEOPLE}<slug:row_id>/<slug:verb>/", people_views.change, name="change-people"),
]
