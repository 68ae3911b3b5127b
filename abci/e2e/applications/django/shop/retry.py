"""Runs a view again when its transaction lost against another one (SQLSTATE 40001).

Django has no such retry of its own, for any database. Sessions that are saved after the view are
not retried.
"""

from django.db import OperationalError

TRIES = 1000
retried = 0


def again(work):
    """Calls work until it does not lose, at most TRIES times."""
    global retried
    for attempt in range(TRIES):
        try:
            return work()
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != "40001" or attempt == TRIES - 1:
                raise
            retried += 1


class RetryMiddleware:
    """Stands last of the middleware, so that all others have seen the request."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_view(self, request, view, arguments, named):
        return again(lambda: view(request, *arguments, **named))
