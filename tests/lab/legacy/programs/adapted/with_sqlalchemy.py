"""SQLAlchemy over psycopg with its adapter: its default pool, or none."""

from __future__ import annotations

import sqlalchemy

from outlast.shims.adapters.sqlalchemy import protect
from tests.lab.legacy.programs.loop import HOST, MODE, PORT, in_threads, right

engine = protect(
    sqlalchemy.create_engine(
        f"postgresql+psycopg://postgres@{HOST}:{PORT}/postgres",
        poolclass=sqlalchemy.NullPool if MODE == "new" else sqlalchemy.QueuePool,
    )
)
query = sqlalchemy.text("SELECT count FROM stock WHERE id = 1")


def call() -> None:
    """A new connection, or one of the pool's."""
    with engine.connect() as connection:
        right(connection.execute(query).scalar_one())


in_threads(lambda: call)
