"""Django's settings, read from the environment and from `.env` beside manage.py.

docs/settings.md lists the variables. An invalid one, or a required one that is missing, stops the process.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from csp.constants import NONE, SELF

from petstore import compatibility, database_urls
from petstore import environment as env
from petstore.addresses import is_this_machine
from petstore.api.openapi.spectacular import build_openapi_settings
from petstore.backoffice import unfold as backoffice
from petstore.mail.email_url import mail_server

BASE_DIR = Path(__file__).resolve().parent.parent
env.load(BASE_DIR / ".env")
compatibility.apply_earlier_settings(os.environ)

# --- Deployment ----------------------------------------------------------------------------------

DEBUG = env.flag("DEBUG", default=False)
ENVIRONMENT = env.choice("ENVIRONMENT", "production", ("production", "staging"))
PORT = env.integer("PORT", 8000, 1, 65535)
BASE_URL = env.api_url("BASE_URL", f"http://localhost:{PORT}/v1")
HTTPS = BASE_URL.startswith("https://")
ORIGIN = urljoin(BASE_URL, "/")[:-1]  # RFC 6454
STAGING_BASE_URL = env.api_url("STAGING_BASE_URL", "")
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
TRUSTED_PROXY_COUNT = env.integer("TRUSTED_PROXY_COUNT", 0, 0, 16)
# How long a client may take to send the headers of a request, and then its body.
CLIENT_SECONDS = env.integer("CLIENT_SECONDS", 30, 1, 300)
DRAIN_SECONDS = env.integer("DRAIN_SECONDS", 0, 0, 300)  # From SIGTERM until the port closes.

# Where clients request a key, a larger plan or help.
SUPPORT_URL = env.page_url("SUPPORT_URL")
SUPPORT_EMAIL = env.email("SUPPORT_EMAIL")
# With `open`, visitors can create accounts on the Free plan (D47).
SIGN_UP = env.choice("SIGN_UP", "closed", ("closed", "open"))
env.require(
    SIGN_UP == "closed" or is_this_machine(urlsplit(BASE_URL).hostname),
    "SIGN_UP",
    "can only be open on this machine. Set it to closed, since the host of BASE_URL is not localhost.",
)
# Without a mail server, no mail is sent, and addresses can't be confirmed.
MAIL_SERVER = mail_server("EMAIL_URL")
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
globals().update(MAIL_SERVER)
EMAIL_TIMEOUT = 10
# For /.well-known/security.txt (RFC 9116 requires both).
SECURITY_CONTACT = env.contact("SECURITY_CONTACT")
SECURITY_EXPIRES = env.timestamp("SECURITY_EXPIRES")

METRICS_ALLOW_FROM = env.networks("METRICS_ALLOW_FROM", "127.0.0.0/8,::1/128")
METRICS_HOST = env.text("METRICS_HOST", "")  # Defaults to the host of `serve`.
METRICS_PORT = env.integer("METRICS_PORT", 0, 0, 65535)  # 0 serves /metrics on PORT.
METRICS_DIR = env.text("METRICS_DIR", "")  # Defaults to the temporary directory.
OTEL_EXPORTER_OTLP_ENDPOINT = env.collector("OTEL_EXPORTER_OTLP_ENDPOINT")

# --- Secrets -------------------------------------------------------------------------------------

SECRET_KEY = env.text("SECRET_KEY", "development-only" * 4 if DEBUG else None)
SECRET_KEY_FALLBACKS = env.comma_separated("SECRET_KEY_FALLBACKS")
API_KEY_PEPPERS = env.peppers("API_KEY_PEPPERS", "1:development-only" if DEBUG else None)
API_KEY_PEPPER_NUMBER = env.pepper_number("API_KEY_PEPPER_NUMBER", API_KEY_PEPPERS)
DEMO_KEY = env.text("DEMO_KEY", "")  # The home page shows it, so `quickstart` creates a read-only one.
env.require(
    not (DEMO_KEY and HTTPS), "DEMO_KEY", "would be public. Unset it, since BASE_URL starts with https://."
)

# --- Databases -----------------------------------------------------------------------------------

DATABASES = {
    "default": database_urls.database("DATABASE_URL", f"sqlite:///{quote(str(BASE_DIR))}/petstore.sqlite3"),
    **database_urls.replicas("DATABASE_REPLICA_URL"),
}
# How many connections each event loop may open for writes.
WRITE_CONNECTIONS = env.integer("DATABASE_WRITE_CONNECTIONS", 16, 1, 256)
# How many milliseconds a request on the event loop may wait for a write connection or a thread.
QUEUE_TIMEOUT = env.integer("DATABASE_QUEUE_TIMEOUT", 1500, 100, 60_000)
# In seconds. A replica with more lag serves no reads.
REPLICA_MAX_LAG = env.integer("REPLICA_MAX_LAG", 5, 1, 60)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES: dict[str, Any] = {
    # One-time codes that have been used (django-allauth).
    "default": {
        "BACKEND": "petstore.sign_in.cache.SharedCache",
        "LOCATION": "cache_entries",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    },
    # Attempts to sign in and the like (django-ratelimit).
    "counters": {"BACKEND": "petstore.sign_in.cache.CounterCache"},
}
RATELIMIT_USE_CACHE = "counters"
CLIENTS_DIR = BASE_DIR / "build/clients"  # `make clients` fills it.
# Where the instances of this machine share the counters of requests without a key.
COUNTERS_DIR = env.text("COUNTERS_DIR", str(BASE_DIR / "var"))

# SQLite has no protocol that an event loop could wait for.
DEFAULT_SERVE_MODE = "loop" if DATABASES["default"]["ENGINE"] == "petstore.db" else "threads"
SERVE_MODE = env.choice("SERVE_MODE", DEFAULT_SERVE_MODE, ("loop", "threads"))
THREADS = env.integer("THREADS", 4, 1, 256)  # Per worker.

# --- Applications and middleware -----------------------------------------------------------------

INSTALLED_APPS = [
    "petstore",
    "petstore.backoffice",
    "accounts",
    "inventory",
    "petstore.health",
    "unfold.apps.BasicAppConfig",  # Before the admin, whose templates it replaces.
    "unfold.contrib.filters",
    "csp",
    "petstore.backoffice.apps.PetstoreAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",  # The templates of widgets, for FORM_RENDERER.
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "petstore.sign_in",
    "petstore.mail",
    "rest_framework",
    "drf_spectacular",
]

MIDDLEWARE = [
    "petstore.api.pipeline.ApiPipeline",  # Serves /v1.
    "petstore.site.middleware.InstrumentationMiddleware",
    "petstore.site.middleware.ContentLengthMiddleware",
    "petstore.site.middleware.ProbesMiddleware",
    # The following middleware applies to pages only.
    "petstore.site.middleware.RedirectLoopMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "petstore.site.middleware.PermissionsPolicyMiddleware",
    "csp.middleware.CSPMiddleware",
    "petstore.site.middleware.MalformedRequestMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "petstore.backoffice.error_pages.StaffFormLimitsMiddleware",
    "petstore.site.middleware.UnreadFormMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "petstore.sign_in.rate_limits.RateLimitMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "petstore.backoffice.error_pages.SignedInPagesMiddleware",
]

ROOT_URLCONF = "petstore.urls"
API_URLCONF = "petstore.api_urls"
WSGI_APPLICATION = "petstore.server.wsgi.application"

TEMPLATE_LOADERS = [
    "django.template.loaders.filesystem.Loader",
    "petstore.backoffice.icons.IconHidingLoader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", TEMPLATE_LOADERS)],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "petstore.site.context_processors.support",
                "accounts.portal.context_processors.own_accounts",
            ],
        },
    }
]
FORM_RENDERER = "petstore.site.form_rendering.FormRenderer"

# --- The API -------------------------------------------------------------------------------------

MAX_BODY_BYTES = 64 * 1024  # D2
MAX_URL_BYTES = 8 * 1024  # Path and query together.
GET_PET_DEPRECATED_AT = datetime(2025, 12, 5, tzinfo=UTC)
GET_PET_REMOVED_AT = datetime(2030, 12, 5, tzinfo=UTC)  # Contract, "Versioning".

# Requests per minute without a valid key, for each client address or IPv6 /64 (D25).
ANONYMOUS_PER_MINUTE = env.integer("ANONYMOUS_PER_MINUTE", 300, 1, 1_000_000)

EVENT_RETENTION_DAYS = env.integer("EVENT_RETENTION_DAYS", 30, 1, 3650)  # D42

# Webhooks (D51 to D57). Attempts at once in each worker; 0 leaves them to `manage.py deliver_webhooks`.
WEBHOOK_WORKERS = env.integer("WEBHOOK_WORKERS", 16, 0, 256)
# Networks that webhooks may be sent to although they are not public, and also with http.
WEBHOOK_ALLOW_NETWORKS = env.networks("WEBHOOK_ALLOW_NETWORKS", "")
WEBHOOK_PROXY = env.host_and_port("WEBHOOK_PROXY")
# The addresses that webhooks come from. The documentation names them, for customers' firewalls.
WEBHOOK_SENT_FROM = env.networks("WEBHOOK_SENT_FROM", "")

# The rejection log.
REJECTION_RETENTION_DAYS = env.integer("REJECTION_RETENTION_DAYS", 7, 1, 365)
MAX_REJECTIONS_PER_ACCOUNT = env.integer("MAX_REJECTIONS_PER_ACCOUNT", 10_000, 1_000, 100_000_000)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["accounts.keys.authentication.BearerKeyAuthentication"],
    "DEFAULT_THROTTLE_CLASSES": ["accounts.quota.throttle.QuotaThrottle"],
    "DEFAULT_PERMISSION_CLASSES": ["accounts.keys.authentication.HasScope"],
    "DEFAULT_PAGINATION_CLASS": "petstore.api.pagination.KeysetPagination",
    "EXCEPTION_HANDLER": "petstore.api.errors.build_error_response",
    "DEFAULT_PARSER_CLASSES": ["petstore.api.parsers.StrictJSONParser"],
    # Affects only the OpenAPI document; see responses.py.
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "petstore.api.parsers.JSONContentNegotiation",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = build_openapi_settings(
    BASE_URL,
    STAGING_BASE_URL,
    contact={name: value for name, value in (("url", SUPPORT_URL), ("email", SUPPORT_EMAIL)) if value},
    enums={
        "PetStatus": "inventory.models.PetStatus",
        "OrderStatus": "inventory.models.OrderStatus",
        "Plan": "accounts.models.PlanCode",
        "Scope": "accounts.keys.scopes.SCOPES",
    },
)

# Requests per minute for pages outside /v1, for each client address or IPv6 /64.
PAGES_PER_MINUTE = env.integer("PAGES_PER_MINUTE", 1200, 1, 1_000_000)

# --- Sign-in (django-allauth) --------------------------------------------------------------------

# With `required`, staff must set up a second factor first. Those who have one always need it to sign in.
STAFF_TWO_FACTOR = env.choice("STAFF_TWO_FACTOR", "optional", ("optional", "required"))

AUTHENTICATION_BACKENDS = ["petstore.sign_in.backends.SignInBackend"]
LOGIN_URL = "account_login"
ACCOUNT_ADAPTER = "petstore.sign_in.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "change_password": "petstore.sign_in.forms.ChangePasswordForm",
    "login": "petstore.sign_in.forms.LoginForm",
    "reauthenticate": "petstore.sign_in.forms.ReauthenticateForm",
    "reset_password": "petstore.sign_in.forms.ResetPasswordForm",
    "user_token": "petstore.sign_in.forms.ResetTokenForm",
}
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_CHANGE_EMAIL = True  # One address. A new one replaces it once it is confirmed.
ACCOUNT_EMAIL_VERIFICATION = "none"  # Signing in does not require a confirmed address.
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # Visitors can't make the service send mail to arbitrary addresses.
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# Without allauth's queries of the user's addresses, which would reveal known addresses.
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "django.contrib.auth.tokens.PasswordResetTokenGenerator"  # noqa: S105
ACCOUNT_SESSION_REMEMBER = False
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_REAUTHENTICATION_TIMEOUT = 2 * 60 * 60  # D48
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]  # No code by email, which has no page here.
# Limits per username that any client can exhaust would lock users out; see sign_in/rate_limits.py.
ACCOUNT_RATE_LIMITS = False
MFA_RATE_LIMITS = False
MFA_ADAPTER = "petstore.sign_in.adapters.MfaAdapter"
MFA_FORMS = {
    "authenticate": "petstore.sign_in.forms.AuthenticateForm",
    "reauthenticate": "petstore.sign_in.forms.ReauthenticateCodeForm",
    "deactivate_totp": "petstore.sign_in.forms.DeactivateForm",
    "add_webauthn": "petstore.sign_in.forms.AddPasskeyForm",
    "authenticate_webauthn": "petstore.sign_in.forms.AuthenticatePasskeyForm",
    "login_webauthn": "petstore.sign_in.forms.LoginPasskeyForm",
    "reauthenticate_webauthn": "petstore.sign_in.forms.ReauthenticatePasskeyForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Pet Store" if ENVIRONMENT == "production" else "Pet Store (staging)"
MFA_TOTP_TOLERANCE = 1  # In steps of 30 s, to tolerate clock skew. sign_in/cache.py prevents reuse.

# --- The back office -----------------------------------------------------------------------------

UNFOLD = backoffice.UNFOLD
# More than any field accepts, so that the form can report a value that is too long.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
MESSAGE_STORAGE = "petstore.backoffice.message_storage.RollbackAwareStorage"

# --- The Content-Security-Policy of all pages ----------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        # Bars and charts set their widths in style attributes.
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

# --- Sessions, cookies, transport ----------------------------------------------------------------

SESSION_ENGINE = "petstore.sign_in.sessions"
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
# Browsers accept `__Host-` cookies only from this host over HTTPS, not from another subdomain.
SESSION_COOKIE_NAME = "__Host-sessionid" if HTTPS else "sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken" if HTTPS else "csrftoken"
KNOWN_BROWSER_COOKIE_NAME = "__Host-known-browser" if HTTPS else "known-browser"
# Sessions end with the browser, after an hour without a request, and after 12 hours at the latest.
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
SESSION_IDLE_SECONDS = 60 * 60
SESSION_COOKIE_AGE = 12 * 60 * 60
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_HTTPONLY = True
# A proxy may omit the port from the Host header, which Django compares with the Origin of forms.
CSRF_TRUSTED_ORIGINS = [ORIGIN]
CSRF_FAILURE_VIEW = "petstore.site.error_pages.csrf_failure"
SECURE_SSL_REDIRECT = HTTPS
SECURE_SSL_HOST = urlsplit(BASE_URL).netloc
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
if TRUSTED_PROXY_COUNT:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

PASSWORD_RESET_TIMEOUT = 24 * 60 * 60  # The lifetime of a password link, in seconds.
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# --- Language, time, files -----------------------------------------------------------------------

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "petstore.site.formats"

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # Serves static files without collectstatic.
WHITENOISE_AUTOREFRESH = False

# --- Logs ----------------------------------------------------------------------------------------

# Text for terminals, JSON for log collectors.
LOG_FORMATTERS = {"json": "JsonFormatter", "text": "TextFormatter"}
LOG_FORMAT = env.choice(
    "LOG_FORMAT", "text" if DEBUG or sys.stderr.isatty() else "json", tuple(LOG_FORMATTERS)
)
LOG_LEVEL = env.choice("LOG_LEVEL", "info", ("debug", "info", "warning", "error", "critical"))
ACCESS_LOG = env.flag("ACCESS_LOG", default=True)  # The request log.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": f"petstore.observability.logs.{LOG_FORMATTERS[LOG_FORMAT]}"}},
    "filters": {
        "with_traceback": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: record.exc_info,
        },
        "without_logged_outages": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: not (record.exc_info and hasattr(record.exc_info[1], "is_logged")),
        },
    },
    "handlers": {
        "output": {
            "()": "petstore.observability.log_writer.QueuedHandler",
            "formatter": "line",
            "filters": ["without_logged_outages"],
        }
    },
    "root": {"handlers": ["output"], "level": LOG_LEVEL.upper()},
    "loggers": {
        # Only tracebacks, since the request log has the status of every response.
        "django.request": {"level": "ERROR", "filters": ["with_traceback"]},
        # Clients can trigger these at will, and get a 400 for each.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "django.security.DisallowedRedirect": {"level": "CRITICAL"},
        "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
    },
}
