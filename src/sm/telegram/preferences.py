"""The commands with which a chat follows sessions and mutes their reports."""

import re

from sm.core.durations import seconds_in
from sm.core.labels import label
from sm.core.telegram_model import session_object
from sm.services import Authorizer, Telegram
from sm.telegram.command_call import CommandCall
from sm.telegram.replies import BotReply

_OFF = "off"
_DURATION = re.compile(r"[1-9][0-9]{0,2}[mhd]")
_DEFAULT = "1h"


async def follow(call: CommandCall, *, telegram: Telegram, authorizer: Authorizer) -> BotReply:
    """`/follow ID`, `/follow ID off`"""
    words = [word for word in call.words if word != _OFF]
    reference = words[0] if words else call.shown
    if reference is None or len(words) > 1:
        raise call.usage()
    session = authorizer.find(call.caller, reference)
    follows = _OFF not in call.words
    await telegram.follow(call.place.chat_id, session.id, follows=follows)
    said = (
        f"This chat follows {label(session)}: its checkpoints, notes and idle times are reported too"
        if follows
        else f"This chat no longer follows {label(session)}"
    )
    return BotReply(said, about=session_object(session.id))


async def mute(call: CommandCall, *, telegram: Telegram, authorizer: Authorizer) -> BotReply:
    """`/mute`, `/mute ID`, `/mute 30m`, `/mute ID 2d`, `/mute ID off`"""
    times = [word for word in call.words if word == _OFF or _DURATION.fullmatch(word)]
    words = [word for word in call.words if word not in times]
    if len(times) > 1 or len(words) > 1:
        raise call.usage()
    reference = words[0] if words else call.shown
    session = None if reference is None else authorizer.find(call.caller, reference)
    time = times[0] if times else _DEFAULT
    seconds = None if time == _OFF else seconds_in(time)
    await telegram.mute(call.caller, call.place.chat_id, None if session is None else session.id, seconds)
    what = "all sessions" if session is None else label(session)
    said = (
        f"Reports about {what} ring again"
        if seconds is None
        else f"Reports about {what} arrive without a sound for {time}. Requests and errors still ring."
    )
    return BotReply(said, about=None if session is None else session_object(session.id))
