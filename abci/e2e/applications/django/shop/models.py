import uuid

from django.db import models


class Label(models.Model):
    name = models.CharField(max_length=40, unique=True)

    def __str__(self):
        return self.name


class Product(models.Model):
    name = models.CharField(max_length=80)
    code = models.UUIDField(default=uuid.uuid4, unique=True)
    stock = models.PositiveIntegerField(default=0)
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    facts = models.JSONField(default=dict, blank=True)
    changed = models.DateTimeField(auto_now=True)
    labels = models.ManyToManyField(Label, blank=True)
    # Of the second migration, which is made through the ledger.
    note = models.CharField(max_length=200, blank=True, default="")

    def __str__(self):
        return self.name


class Purchase(models.Model):
    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True)


class Review(models.Model):
    """Of the second migration."""

    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    stars = models.PositiveSmallIntegerField(db_index=True)
