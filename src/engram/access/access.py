"""The parts of this tier, as the facade offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store_view import StoreView
    from .answers import Answers
    from .attempts import Attempts
    from .logins import Logins
    from .tokens import Tokens


class Access:
    """Each part is imported when it is needed: a command that makes a token needs no OAuth."""

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine

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
    def attempts(self) -> Attempts:
        """Limits on how often something may be tried."""
        from .attempts import Attempts

        return Attempts(self._engine)
