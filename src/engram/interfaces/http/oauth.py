"""stub"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .service import Service


def add(app: FastAPI, service: Service) -> None:
    pass
