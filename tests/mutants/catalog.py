"""Mutants that the checks must kill: each is an edit of one file of the product, which breaks a promise.

Sixteen undo the core of a commit that mended a loss, a double or a race. Eleven are mutations of the code on which
the most rests. `python -m tests.mutants` puts them in one at a time.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit that breaks a promise. `old` occurs once in the file `path`, relative to the root of the project."""

    name: str
    breaks: str
    """The harm to a user."""
    path: str
    old: str
    new: str

    def is_applicable(self) -> bool:
        return (ROOT / self.path).read_text().count(self.old) == 1


MUTANTS = (
    # -------------------------------------------------------------------------------- commits that mended a fault
    Mutant(
        "spending_of_paused_session",
        "a paused session that spends again counts as paused",
        "src/sm/capabilities/pauses/setup.py",
        "    kernel.usage.followers.insert(0, pauses)  # before those who charge it, and pause the session\n",
        "",
    ),
    Mutant(
        "account_pause_ends_early",
        "a timed pause of a session ends the pause of its account, and the session spends",
        "src/sm/capabilities/pauses/listeners.py",
        "            if not await leave_to_hold(tx, session) and await tx.keep_paused(session) is None:\n",
        "            if not await leave_to_hold(tx, session):\n",
    ),
    Mutant(
        "refusal_lost_by_restart",
        "a message that a hook of the user refused stays submitted, because the daemon was restarted",
        "src/sm/messaging/receipts.py",
        "            number = await self._hooked_before(session_id, accepted)\n",
        "            number = None\n",
    ),
    Mutant(
        "kept_connection_of_ended_session",
        "a process of an ended session acts through a connection that it opened before",
        "src/sm/api/middleware.py",
        "        if holder is not None and self._identity.has_ended(holder):\n            raise ended(holder.id)\n",
        "",
    ),
    Mutant(
        "kill_taken_for_pause",
        "a session that is killed while a pause ends its process starts again",
        "src/sm/sessions/kill.py",
        "            if force or end_by_kill(tx, victim.id) is None:\n",
        "            if force or not tx.has_open(EffectKind.KILL, victim.id):\n",
    ),
    Mutant(
        "team_broken_by_lost_server",
        "the end of the terminal server gives every child to the operator",
        "src/sm/state/endings.py",
        "        case LossCause.SERVER:\n            return True\n",
        "        case LossCause.SERVER:\n            return False\n",
    ),
    Mutant(
        "end_of_turn_in_memory",
        "a turn that ended right before the daemon did is never read",
        "src/sm/monitor/recorder.py",
        "                tx.turn_ends.keep(end)\n",
        "                pass\n",
    ),
    Mutant(
        "broadcast_answers_question",
        "a broadcast answers every open question of whoever it reaches",
        "src/sm/messaging/messages.py",
        "None if use is TextUse.MESSAGE else self._answered_by(tx, caller, session)",
        "self._answered_by(tx, caller, session)",
    ),
    Mutant(
        "request_of_removed_session",
        "a removed session leaves a budget request open that nobody can answer",
        "src/sm/sessions/archive.py",
        "            for follower in tx.followers:\n                await follower.leave(tx, now)\n",
        "",
    ),
    Mutant(
        "lowered_budget_told_again",
        "an agent that lowers its own budget has 80% told again and again",
        "src/sm/capabilities/budgets/state/charges.py",
        "            keeps = not now.stops and only_lowers(now.limits, limits)\n",
        "            keeps = False\n",
    ),
    Mutant(
        "words_after_removal",
        "what a removed session said comes back into the search",
        "src/sm/monitor/usage.py",
        "            if tx.find(session_id) is None:\n                return\n            if record",
        "            if record",
    ),
    Mutant(
        "failure_told_twice",
        "one failed turn is told twice, because two sources report it",
        "src/sm/state/faults.py",
        "        if await _has_other_source_told(tx, session_id, fault, at, source):\n            return False\n",
        "",
    ),
    Mutant(
        "spawn_before_process",
        "sm spawn answers before the agent's process is known",
        "src/sm/sessions/starts.py",
        "        return not starts or session.status is Status.KILLED\n",
        "        return True\n",
    ),
    Mutant(
        "message_lost_between_processes",
        "a message that was typed to a crashed agent counts as typed to the next one",
        "src/sm/messaging/inbox.py",
        "(session.exit is not None or is_waiting(session))",
        "session.exit is not None",
    ),
    Mutant(
        "idle_of_turn_before",
        "a session that a message has reopened is called idle by the end of the turn before",
        "src/sm/monitor/recorder.py",
        "    return max(0.0, epoch_s(session.status_at) + REOPENED_S - now)\n",
        "    return 0.0\n",
    ),
    Mutant(
        "usage_of_whole_slot",
        "sm usage --since counts from the beginning of the quarter of an hour",
        "src/sm/capabilities/usage/tables.py",
        "    return slot, slot if rest_s == SLOT_S else slot_at(epoch_s(since) + SLOT_S)\n",
        "    return slot, slot\n",
    ),
    Mutant(
        "restart_never_given_up",
        "a session that ends while its restart waits stays for ever",
        "src/sm/daemon/start_effects.py",
        "                await self._starts.record_no_start(effect)\n",
        "                await self._effects.mark_finished(effect)\n",
    ),
    # ------------------------------------------------------------------------------------------------ mutations
    Mutant(
        "crash_is_success",
        "an agent that crashed is called completed",
        "src/sm/core/lifecycle.py",
        "            (live, SignalKind.CRASHED): Status.ERROR,\n",
        "            (live, SignalKind.CRASHED): Status.COMPLETED,\n",
    ),
    Mutant(
        "oldest_effect_lost",
        "the oldest order that the last daemon did not carry out is forgotten",
        "src/sm/daemon/outbox.py",
        "            for effect in pending:\n",
        "            for effect in pending[1:]:\n",
    ),
    Mutant(
        "prompt_typed_twice",
        "the first prompt is typed again after a crash of the daemon",
        "src/sm/daemon/start_effects.py",
        "        await self._effects.mark_taken(effect)  # from here on the effect is never repeated\n",
        "",
    ),
    Mutant(
        "queue_not_kept",
        "the new terminal of a restored session is closed as the old one",
        "src/sm/daemon/outbox.py",
        '        queues = (queue, _end_queue(effect.session_id)) if effect.payload.get("again") else (queue,)\n',
        "        queues = (queue,)\n",
    ),
    Mutant(
        "read_before_arrival",
        "the end of a turn acknowledges messages that came after it",
        "src/sm/messaging/receipts.py",
        " and m.state_at < ended]",
        "]",
    ),
    Mutant(
        "late_report_believed",
        "a late report says that a message arrived which the agent had put back",
        "src/sm/messaging/receipts.py",
        "            and iso(accepted.at) <= message.state_at\n",
        "            and not message.state\n",
    ),
    Mutant(
        "enter_after_a_tool",
        "the Enter of a message answers the dialog of a tool that stopped waiting for it",
        "src/sm/messaging/composer/machine.py",
        "            and not box.overtaken\n",
        "",
    ),
    Mutant(
        "left_part_pasted_again",
        "a part of a message is pasted twice after a restart, because the box shows the first paste late",
        "src/sm/messaging/composer/machine.py",
        "                message.left_groups = ()\n",
        "",
    ),
    Mutant(
        "event_with_an_old_time",
        "the composer believes that no time passed while the start of a delivery was recorded",
        "src/sm/messaging/composer/driver.py",
        "                    event = CarriedOut(_now_s(), value)\n",
        "                    event = CarriedOut(event.at_s, value)\n",
    ),
    Mutant(
        "told_to_the_dead",
        "notices go to a parent that has ended",
        "src/sm/state/notices.py",
        "if a.exit is None and is_live(a.status)), None)",
        "if a.exit is None), None)",
    ),
    Mutant(
        "request_carried_out_twice",
        "a repeated request is carried out again",
        "src/sm/store/transaction.py",
        "            self.replayed = await self._key.result(self.read)\n",
        "            await self._key.result(self.read)\n",
    ),
)
