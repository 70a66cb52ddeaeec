"""The parts of this tier, as the facade offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .permission import author_of, require

if TYPE_CHECKING:
    from ..access_records import NewToken
    from ..store_view import StoreView
    from .answers import Answers
    from .attempts import Attempts
    from .clients import Clients
    from .consents import Consents
    from .logins import Logins
    from .tokens import Tokens


class Access:
    """Each part is imported when it is needed: a command that makes a token needs no OAuth."""

    #: Raises Forbidden if a grant does not include a scope in a workspace. The only place that decides it.
    require = staticmethod(require)
    #: The author of what the bearer of a grant writes.
    author_of = staticmethod(author_of)

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine

    def ensure_admin(self, path: str) -> NewToken | None:
        """The first admin token, with its secret in a private file; None if the store has one already."""
        from .first import ensure_admin

        return ensure_admin(self._engine, path)

    @property
    def tokens(self) -> Tokens:
        """Access tokens, which a program sends with each request."""
        from .tokens import Tokens

        return Tokens(self._engine)

    @property
    def logins(self) -> Logins:
        """Logins of browsers, and links that log a browser in."""
        from .logins import Logins

        return Logins(self._engine)

    @property
    def answers(self) -> Answers:
        """Answers to requests with an idempotency key."""
        from .answers import Answers

        return Answers(self._engine)

    @property
    def clients(self) -> Clients:
        """Registered OAuth clients."""
        from .clients import Clients

        return Clients(self._engine)

    @property
    def consents(self) -> Consents:
        """Requests of OAuth clients, the consents of persons to them, and the tokens that come from those."""
        from .consents import Consents

        return Consents(self._engine)

    @property
    def attempts(self) -> Attempts:
        """Limits on how often something may be tried."""
        from .attempts import Attempts

        return Attempts(self._engine)
