"""Transfers and notes by SQLAlchemy's ORM. The argument is `make`, for the tables, or an organisation's number."""

import datetime
import sys
import uuid

from sqlalchemy import ForeignKey, Numeric, String, create_engine, func, insert, select, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert as upsert
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.orm.exc import StaleDataError

TRANSFERS, TRIES = 20, 1000
# libpq's variables name host, port, role and database.
engine = create_engine("postgresql+psycopg://", pool_size=2)
retried = {"40001": 0, "version": 0}


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner: Mapped[str] = mapped_column(unique=True)
    balance: Mapped[float] = mapped_column(Numeric(12, 2))
    version: Mapped[int] = mapped_column()
    entries: Mapped[list["Entry"]] = relationship(back_populates="of")
    __mapper_args__ = {"version_id_col": version}


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    amount: Mapped[float] = mapped_column(Numeric(12, 2))
    at: Mapped[datetime.datetime] = mapped_column(server_default=func.now())
    of: Mapped[Account] = relationship(back_populates="entries")


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    writer: Mapped[int]
    text: Mapped[str] = mapped_column(String(200))
    facts: Mapped[dict | None] = mapped_column(JSONB)
    tags: Mapped[list[str] | None] = mapped_column(ARRAY(String))
    code: Mapped[uuid.UUID | None] = mapped_column(unique=True, default=uuid.uuid4)


def again(work):
    """Does the work in a session of its own until it does not lose, at most TRIES times."""
    for attempt in range(TRIES):
        try:
            with Session(engine) as session, session.begin():
                return work(session)
        except StaleDataError:
            retried["version"] += 1
        except OperationalError as error:
            if error.orig.sqlstate != "40001":
                raise
            retried["40001"] += 1
    raise AssertionError(f"lost {TRIES} times")


def transfer(session, source, target):
    for number, amount in ((source, -1), (target, 1)):
        account = session.get(Account, number)
        account.balance += amount
        account.entries.append(Entry(amount=amount))


def notes(session, me):
    """Writes 105 notes and some that do not stay."""
    many = session.scalars(insert(Note).returning(Note.id), [{"writer": me, "text": f"note {i}"} for i in range(100)]).all()
    assert len(set(many)) == 100
    note = Note(writer=me, text="one", facts={"a": [1, None]}, tags=["x", 'y"'])
    session.add(note)
    session.flush()
    note.text = "changed"
    try:
        with session.begin_nested():
            session.add(Note(writer=me, text="double", code=note.code))
    except IntegrityError:
        pass
    else:
        raise AssertionError("two notes have one code")
    with session.begin_nested():
        session.add_all(Note(writer=me, text="nested") for _ in range(5))
    session.delete(session.scalars(select(Note).where(Note.writer == me, Note.text == "nested").order_by(Note.id).limit(1)).one())
    session.execute(update(Note).where(Note.writer == me, Note.text == "nested").values(facts={"n": 1}))
    same = upsert(Note).values(id=note.id, writer=me, text="met")
    session.execute(same.on_conflict_do_update(index_elements=[Note.id], set_={"text": same.excluded.text}))
    session.refresh(note)
    assert (note.text, note.facts) == ("met", {"a": [1, None]})


def run(me):
    for i in range(TRANSFERS):
        again(lambda session: transfer(session, 1 + i % 10, 1 + (i + me + 1) % 10))
    again(lambda session: notes(session, me))
    print(f"ran again: {retried['40001']} by 40001, {retried['version']} by the version column")


if sys.argv[1] == "make":
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all(Account(id=i, owner=f"owner {i}", balance=1000) for i in range(1, 11))
else:
    run(int(sys.argv[1]))
