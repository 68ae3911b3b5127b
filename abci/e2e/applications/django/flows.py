"""Goes through the pages and the ORM of the project at one organisation, whose number is the argument."""

import os
import re
import sys
import threading

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.test import Client

from shop import retry
from shop.models import Label, Product, Purchase, Review

PURCHASES = 6
me = int(sys.argv[1])


def expect(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def logged_in(name, password):
    """A client with a session, which logged in by the page; its posts carry CSRF tokens."""
    client = Client(enforce_csrf_checks=True)
    client.get("/admin/login/")
    expect(post(client, "/admin/login/?next=/admin/", username=name, password=password), 302)
    expect(client.get("/admin/").status_code, 200)
    return client


def post(client, page, **fields):
    fields["csrfmiddlewaretoken"] = client.cookies["csrftoken"].value
    response = client.post(page, fields)
    if response.status_code == 200:
        errors = re.findall(r'(?s)<ul class="errorlist.*?</ul>', response.content.decode())
        raise AssertionError(f"{page} was not taken: {errors}")
    return response.status_code


def inline(**fields):
    """The fields of the form of purchases inside the form of a product."""
    return {"purchase_set-TOTAL_FORMS": 1, "purchase_set-INITIAL_FORMS": 0, **fields}


def admin_pages():
    os.environ["DJANGO_SUPERUSER_PASSWORD"] = "first secret"
    call_command("createsuperuser", username=f"staff{me}", email="a@example.org", interactive=False, verbosity=0)
    client = logged_in(f"staff{me}", "first secret")
    label = f"label of {me}"
    expect(post(client, "/admin/shop/label/add/", name=label), 302)
    product = {"name": f"lamp of {me}", "code": f"00000000-0000-0000-0000-00000000000{me}", "stock": 5, "price": "9.90",
               "facts": '{"watts": [5, 7.5]}', "labels": Label.objects.get(name=label).pk, "note": ""}
    expect(post(client, "/admin/shop/product/add/", **product, **inline(**{"purchase_set-0-number": 2})), 302)
    lamp = Product.objects.get(name=product["name"])
    expect((lamp.purchase_set.get().number, lamp.labels.get().name, lamp.facts), (2, label, {"watts": [5, 7.5]}))
    page = f"/admin/shop/product/{lamp.pk}/"
    expect(post(client, page + "change/", **product | {"note": "changed", "price": "8.50"}, **inline()), 302)
    lamp.refresh_from_db()
    expect((lamp.note, str(lamp.price)), ("changed", "8.50"))
    expect(post(client, page + "delete/", post="yes"), 302)
    expect(Purchase.objects.filter(product_id=lamp.pk).count(), 0)
    expect(post(client, "/admin/auth/group/add/", name=f"group of {me}", permissions=[1, 2, 3]), 302)
    expect(Group.objects.get(name=f"group of {me}").permissions.count(), 3)
    return client


def passwords_and_sessions(client):
    page = dict(old_password="first secret", new_password1="the second one", new_password2="the second one")
    expect(post(client, "/admin/password_change/", **page), 302)
    expect(client.get("/admin/").status_code, 200)
    session = client.session
    session["basket"] = [1, 2, me]
    session.save()
    expect(client.session["basket"], [1, 2, me])
    key = session.session_key
    client.post("/admin/logout/", {"csrfmiddlewaretoken": client.cookies["csrftoken"].value})
    expect(Session.objects.filter(session_key=key).count(), 0)
    client.get("/admin/login/")
    expect(client.post("/admin/login/", {"username": f"staff{me}", "password": "first secret",
                                         "csrfmiddlewaretoken": client.cookies["csrftoken"].value}).status_code, 200)
    again = logged_in(f"staff{me}", "the second one")
    expect(Session.objects.filter(session_key=again.session.session_key).count(), 1)
    call_command("clearsessions")


def orm():
    made = Product.objects.bulk_create(Product(name=f"bulk {me}", stock=n) for n in range(10))
    expect(len({p.pk for p in made}), 10)
    retry.again(lambda: Product.objects.filter(name=f"bulk {me}").update(stock=F("stock") * 2, note="twice"))
    Product.objects.bulk_update([Product(pk=p.pk, price=n) for n, p in enumerate(made)], ["price"])
    expect(sum(p.stock + p.price for p in Product.objects.filter(name=f"bulk {me}")), 135)
    with transaction.atomic():
        Review.objects.create(product=made[0], stars=3)
        try:
            with transaction.atomic():  # a savepoint
                Product.objects.create(name="double", code=made[0].code)
        except IntegrityError:
            Review.objects.create(product=made[1], stars=4)
        else:
            raise AssertionError("two products have one code")
    expect(Review.objects.filter(product__name=f"bulk {me}").count(), 2)
    try:
        with transaction.atomic():
            Review.objects.create(product=made[0], stars=1)
            raise KeyError
    except KeyError:
        expect(Review.objects.filter(stars=1, product=made[0]).count(), 0)
    try:
        Review.objects.create(product_id=10**9, stars=1)
        raise AssertionError("a review of no product")
    except IntegrityError:
        pass
    made[9].delete()
    # All organisations make the same row, and one of them gets it made.
    retry.again(lambda: Label.objects.get_or_create(name="of all"))
    retry.again(lambda: Label.objects.update_or_create(name="of all", defaults={"name": "of all"}))
    retry.again(lambda: Label.objects.bulk_create([Label(name="of all")], ignore_conflicts=True))


def purchases(client):
    """Two threads buy the one product that all organisations sell."""
    failed = []

    def buys():
        try:
            for _ in range(PURCHASES // 2):
                expect(client.get("/buy/1/").status_code, 204)
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=buys) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


client = admin_pages()
passwords_and_sessions(client)
orm()
purchases(logged_in(f"staff{me}", "the second one"))
expect(User.objects.filter(username=f"staff{me}", last_login__isnull=False).count(), 1)
print(f"{retry.retried} transactions ran again")
