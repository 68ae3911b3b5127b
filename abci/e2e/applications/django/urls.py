from django.contrib import admin
from django.urls import path

from shop.views import buy

urlpatterns = [path("admin/", admin.site.urls), path("buy/<int:product>/", buy)]
