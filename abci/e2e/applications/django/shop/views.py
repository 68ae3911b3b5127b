from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse

from shop.models import Product, Purchase


@login_required
@transaction.atomic
def buy(request, product):
    bought = Product.objects.select_for_update().get(pk=product)
    bought.stock -= 1
    bought.save()
    Purchase.objects.create(product=bought, number=1)
    return HttpResponse(status=204)
