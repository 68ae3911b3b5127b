from django.contrib import admin

from shop.models import Label, Product, Purchase


class PurchaseInline(admin.TabularInline):
    model = Purchase
    extra = 1


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["name", "stock", "price"]
    inlines = [PurchaseInline]


admin.site.register(Label)
