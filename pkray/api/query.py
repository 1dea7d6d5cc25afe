"""Continuous queries as their users hold them: with the plans that can take over."""

from dataclasses import replace
from typing import Any

from pkray import relational
from pkray.errors import UnsupportedError
from pkray.relational.continuous.queries import query
from pkray.relational.continuous.queries.compiling import Compiled, compile_plans, sink_for
from pkray.relational.continuous.upgrades.upgrade import Upgrade
from pkray.relational.plan.plan_diff import PlanDiff


class Query(query.Query):
    """A continuous query; made by ``Relation.materialize`` and ``Statement.start``, found by
    ``Catalog.query``.

    Attributes:
        name: the query's; that of its table, where it has one.
    """

    def plan(self) -> Any:
        """Give the plan that it runs."""
        current = self._watched.current
        document = current.definition.document
        return relational.Plan(document, current.roots, current.catalog.session)

    def diff(self, new: Any) -> PlanDiff:
        """Say what becomes of each operator with state if another plan takes over.

        Args:
            new: as of `upgrade`.

        Returns:
            each state kept, warmed up or dropped; and in ``refused`` why the plan cannot take over.
        """
        return self._fates(self._compiled(new))

    def upgrade(self, new: Any, *, wait: bool = True, timeout: float = 3600.0) -> Upgrade:
        """Let another plan take over.

        Operators that compute the same go on with their states; others are computed from what the
        sources hold. Until that is done the query goes on as it was; then one snapshot of each
        result has the rows of the newer plan, and the table its columns. With the query's own plan
        nothing happens.

        Args:
            new: a relation, a plan, an INSERT, or SQL of a SELECT or an INSERT.
            wait: until it has taken over.
            timeout: seconds.

        Returns:
            the upgrade, to be accepted or rolled back.

        Raises:
            SharedResultError: a result that would change has rows of others.
            UpgradeRefusedError: the plan cannot take over; its ``field`` says what differs.
            UpgradeError: another upgrade is under way, or not accepted yet.
            QueryFailedError: the newer plan cannot be computed; the query goes on as it was.
            ServiceUnavailableError: it takes longer than `timeout`; it goes on.
        """
        found = self._hand_over(self._compiled(new))
        if wait:
            found.wait(timeout)
        return found

    def _compiled(self, new: Any) -> Compiled:
        """Compile what is to take the place of the plan.

        Raises:
            UnsupportedError: it is no relation, plan, statement or SQL, or the query goes to a
                program.
        """
        current, catalog = self._watched.current.definition, self._watched.stored.catalog
        if not current.tables:
            raise UnsupportedError(
                f"query {self.name} goes to a program: start another one with the newer plan",
                query=self.name,
            )
        if isinstance(new, str):
            new = relational.run_statement(catalog, new, current.dialect)
        if isinstance(new, relational.Statement):
            new = new.compile()
        if isinstance(new, relational.Relation) and len(current.tables) == 1:
            sink = sink_for(new, catalog.load_table(current.tables[0]))
            made = compile_plans([sink], new.dialect, catalog.session)
            return replace(made, text=new.text)
        if isinstance(new, relational.Plan):
            return new.compiled
        raise UnsupportedError(
            f"query {self.name} takes the plan of a relation, a plan, a statement or SQL; into "
            f"{', '.join(current.tables)} the statements of as many tables"
        )


def held(found: query.Query) -> Query:
    """Give a query to its user."""
    return Query(found._watched.stored)
