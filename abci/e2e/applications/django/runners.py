"""Runners of Django's own tests in a database that is there, with its tables as they are."""

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models.signals import post_migrate
from django.test import TestCase
from django.test.runner import DiscoverRunner


class RollingBackRunner(DiscoverRunner):
    """A test of a TestCase is a savepoint, and its class is one transaction that is rolled back."""

    def setup_databases(self, **kwargs):
        made = super().setup_databases(**kwargs)
        # The rows that this puts into tables are there from now on.
        post_migrate.receivers.clear()
        return made


class CommittingRunner(RollingBackRunner):
    """Each statement or atomic block commits, as Django tests databases without transactions.

    The tables with rows are emptied after each test, but for those that migrations fill.
    """

    def setup_databases(self, **kwargs):
        TestCase._databases_support_transactions = classmethod(lambda cls: False)
        TestCase._fixture_teardown = empty
        return super().setup_databases(**kwargs)


def empty(test):
    models = [m for m in apps.get_models() if m._meta.managed and not m._meta.proxy and m not in (ContentType, Permission)]
    tables = [connection.ops.quote_name(m._meta.db_table) for m in models if m._base_manager.exists()]
    if tables:
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
