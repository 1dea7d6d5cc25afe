"""Tokens of assigners: another one says that the assigner has forgotten the session."""

from collections.abc import Callable, Iterable

from pkray.errors import LostBatchesError
from pkray.service.protocol import Holding, SessionId


def note_token(tokens: dict[int, str], owner: int, token: str, session: SessionId) -> None:
    """Keep the token of an answer with those of the owners that answered before.

    Raises:
        LostBatchesError: the owner had another one.
    """
    if tokens.setdefault(owner, token) != token:
        raise _forgotten(owner, session)


def require_tokens(
    expected: Iterable[Holding],
    token: Callable[[SessionId], str | None],
    has_ended: Callable[[SessionId], bool],
    owner: int,
) -> None:
    """See that sessions are known by which rows were placed, unless they have ended.

    Args:
        token: of a session as it is known now.

    Raises:
        LostBatchesError: they are not.
    """
    for each in expected:
        is_lost = each.token not in (None, token(each.session))
        if is_lost and not has_ended(each.session):
            raise _forgotten(owner, each.session)


def check_tokens(held: str | None, tokens: Iterable[str], owner: int, session: SessionId) -> None:
    """Check that what an assigner answered is still known.

    Args:
        held: the token of the session now, None without one.
        tokens: that came with the answers.

    Raises:
        LostBatchesError: not all of them were given by the session as it is now.
    """
    if any(token != held for token in tokens):
        raise _forgotten(owner, session)


def _forgotten(owner: int, session: SessionId) -> LostBatchesError:
    return LostBatchesError(
        f"owner {owner} forgot where rows of {session.user!r} were to go: it restarted; push again",
        owner=owner,
        user=session.user,
    )
