"""Settings under which Django's own tests of sessions and users run, in a database that is there."""

from settings import DATABASES, PASSWORD_HASHERS, SECRET_KEY, TEMPLATES  # noqa: F401

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sites",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.staticfiles",
    "sessions_tests",
    "auth_tests",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "auth_tests.urls"
STATIC_URL = "static/"
SITE_ID = 1
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
# Some tests ask for a second database; it is none of the ledger.
DATABASES["other"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
TEST_RUNNER = "runners.RollingBackRunner"
# Tables without migrations, as Django's own runtests.py has them.
MIGRATION_MODULES = {app: None for app in ("auth", "contenttypes", "sessions", "sites", "admin")}
