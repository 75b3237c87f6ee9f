"""The tables of version 10, which a new database gets first. Never edit them: a change is a step of `migrations`."""

_INSTANCE = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE idempotency (
        caller TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        result TEXT NOT NULL,
        created_at TEXT NOT NULL,
        PRIMARY KEY (caller, key)
    ) WITHOUT ROWID""",
)

_SESSIONS = (
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        friendly_name TEXT,
        title TEXT,
        agent_type TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT,
        status TEXT NOT NULL,
        status_source TEXT NOT NULL,
        status_reason TEXT NOT NULL,
        status_at TEXT NOT NULL,
        mode TEXT NOT NULL,
        parent_id TEXT,
        created_by TEXT NOT NULL,
        working_dir TEXT NOT NULL,
        workspace TEXT,
        trust_level TEXT NOT NULL,
        effective_mode TEXT NOT NULL,
        terminal TEXT NOT NULL,
        pid INTEGER,
        pid_started TEXT,
        ended INTEGER NOT NULL DEFAULT 0,
        exit_code INTEGER,
        exit_signal INTEGER,
        created_at TEXT NOT NULL,
        started_at TEXT,
        completed_at TEXT,
        completion_status TEXT,
        completion_message TEXT,
        note TEXT,
        archived INTEGER NOT NULL DEFAULT 0,
        openings INTEGER NOT NULL DEFAULT 1,
        token_hash TEXT,
        spawn_prompt TEXT,
        launch TEXT NOT NULL,
        removed INTEGER NOT NULL DEFAULT 0,
        conversation TEXT,
        transcript TEXT,
        worktree TEXT,
        branch TEXT,
        mode_source TEXT NOT NULL DEFAULT 'child_agents.mode',
        reminders INTEGER NOT NULL DEFAULT 0,
        turn_ended_at TEXT,
        account TEXT,
        cut_off_at TEXT,
        paired_user TEXT,
        paused TEXT,
        worked_s REAL NOT NULL DEFAULT 0,
        working_since TEXT,
        bound_to TEXT,
        restarts TEXT
    ) WITHOUT ROWID""",
    "CREATE INDEX sessions_of_creators ON sessions (created_by, created_at)",
    """CREATE TABLE workspaces (
        slug TEXT PRIMARY KEY,
        directory TEXT NOT NULL,
        created_at TEXT NOT NULL,
        trust_level TEXT,
        capabilities TEXT NOT NULL,
        strict_mcps INTEGER NOT NULL,
        sandbox TEXT NOT NULL,
        deleted_at TEXT,
        lifecycle TEXT
    ) WITHOUT ROWID""",
)

_EVENTS = (
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        type TEXT NOT NULL,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        parent_session_id TEXT,
        timestamp TEXT NOT NULL,
        message TEXT NOT NULL,
        metadata TEXT NOT NULL
    )""",
    "CREATE INDEX events_of_session ON events (session_id, seq)",
    "CREATE INDEX events_of_births ON events (parent_session_id, seq) WHERE type = 'spawned'",
    "CREATE INDEX events_of_endings ON events (timestamp) WHERE type IN ('completed', 'error', 'abandoned', 'killed')",
    """CREATE TABLE checkpoints (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        timestamp TEXT NOT NULL,
        message TEXT NOT NULL,
        metadata TEXT NOT NULL
    )""",
    "CREATE INDEX checkpoints_of_session ON checkpoints (session_id, id)",
)

_OUTBOX = (
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        payload TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        reason TEXT,
        created_at TEXT NOT NULL
    )""",
    "CREATE INDEX outbox_by_state ON outbox (state, id)",
    # Actions that are due at a time: the quiet window after a turn, reminders, the reset of a usage limit.
    """CREATE TABLE timers (
        subject TEXT NOT NULL,
        kind TEXT NOT NULL,
        due_at TEXT NOT NULL,
        within_s REAL,
        data TEXT NOT NULL,
        PRIMARY KEY (subject, kind)
    ) WITHOUT ROWID""",
)

_MESSAGES = (
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT REFERENCES sessions (id),
        sender TEXT NOT NULL,
        mode TEXT NOT NULL,
        state TEXT NOT NULL,
        text TEXT NOT NULL,
        created_at TEXT NOT NULL,
        state_at TEXT NOT NULL,
        via TEXT,
        evidence TEXT,
        reason TEXT,
        submitted_at TEXT,
        acknowledged_at TEXT,
        expires_at TEXT
    )""",
    "CREATE INDEX messages_open ON messages (state, id) WHERE state IN ('queued', 'delivering')",
    "CREATE INDEX messages_lost ON messages (state) WHERE state IN ('failed', 'expired')",
    "CREATE INDEX messages_of_recipient ON messages (session_id, id)",
    "CREATE INDEX messages_of_sender ON messages (sender, id)",
    # Received messages are acknowledged at the end of their turn.
    "CREATE INDEX messages_unacknowledged ON messages (session_id) WHERE state = 'submitted' AND via = 'terminal'",
    """CREATE TABLE notices (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        recipient TEXT,
        kind TEXT NOT NULL,
        occasion TEXT NOT NULL,
        text TEXT NOT NULL,
        created_at TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        message_id INTEGER REFERENCES messages (id),
        UNIQUE (session_id, occasion)
    )""",
    "CREATE INDEX notices_pending ON notices (id) WHERE state = 'pending'",
    "CREATE INDEX notices_of_message ON notices (message_id)",
)

_REQUESTS = (
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        created_at TEXT NOT NULL,
        state_at TEXT NOT NULL,
        expires_at TEXT,
        tool TEXT,
        arguments TEXT,
        questions TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        reason TEXT,
        taken_at TEXT,
        hook TEXT,
        tool_use TEXT,
        agent TEXT NOT NULL DEFAULT '',
        cut INTEGER NOT NULL DEFAULT 0,
        evidence TEXT
    )""",
    "CREATE INDEX requests_by_state ON requests (state, id)",
    "CREATE INDEX requests_of_session ON requests (session_id, id)",
    "CREATE INDEX requests_of_hooks ON requests (hook) WHERE hook IS NOT NULL",
)

_USAGE = (
    # Read position in each transcript file, written in the same transaction as the usage read up to it.
    """CREATE TABLE transcripts (
        session_id TEXT NOT NULL REFERENCES sessions (id),
        path TEXT NOT NULL,
        inode INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        PRIMARY KEY (session_id, path)
    ) WITHOUT ROWID""",
    """CREATE TABLE usage (
        session_id TEXT NOT NULL REFERENCES sessions (id),
        message_id TEXT NOT NULL,
        model TEXT NOT NULL,
        at TEXT NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cache_write_1h INTEGER NOT NULL,
        sidechain INTEGER NOT NULL,
        PRIMARY KEY (session_id, message_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE tool_uses (
        session_id TEXT NOT NULL REFERENCES sessions (id),
        tool_use_id TEXT NOT NULL,
        name TEXT NOT NULL,
        at TEXT NOT NULL,
        sidechain INTEGER NOT NULL,
        PRIMARY KEY (session_id, tool_use_id)
    ) WITHOUT ROWID""",
    # Other facts about a session, as JSON: its newest tool, its to-do list, its context.
    """CREATE TABLE observed (
        session_id TEXT PRIMARY KEY REFERENCES sessions (id),
        facts TEXT NOT NULL
    ) WITHOUT ROWID""",
)

_SUMS = (
    # Work of sessions in slots of a quarter of an hour (core/time_slots.py).
    """CREATE TABLE work (
        session_id TEXT NOT NULL REFERENCES sessions (id),
        at TEXT NOT NULL,
        seconds REAL NOT NULL,
        PRIMARY KEY (session_id, at)
    ) WITHOUT ROWID""",
    # Reminders and retries that sm has sent to sessions.
    """CREATE TABLE follow_ups (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        kind TEXT NOT NULL,
        at TEXT NOT NULL
    )""",
    # The sums of removed sessions. The heir is the nearest ancestor that is not removed, or empty for the operator.
    """CREATE TABLE removed_sums (
        session_id TEXT PRIMARY KEY REFERENCES sessions (id),
        heir TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX removed_sums_of_heirs ON removed_sums (heir)",
    # The usage of removed sessions, in slots as `work`.
    """CREATE TABLE removed_usage (
        session_id TEXT NOT NULL REFERENCES sessions (id),
        at TEXT NOT NULL,
        model TEXT NOT NULL,
        sidechain INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cache_write_1h INTEGER NOT NULL,
        PRIMARY KEY (session_id, at, model, sidechain)
    ) WITHOUT ROWID""",
)

_WARNINGS = (
    # Episodes of warnings about sessions. An open one has no `closed_at`.
    """CREATE TABLE warnings (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        opened_at TEXT NOT NULL,
        closed_at TEXT,
        value REAL NOT NULL,
        bound REAL NOT NULL,
        evidence TEXT NOT NULL,
        told INTEGER NOT NULL,
        nudge INTEGER
    )""",
    "CREATE UNIQUE INDEX open_warnings ON warnings (session_id, kind) WHERE closed_at IS NULL",
    "CREATE INDEX warnings_of_sessions ON warnings (session_id, opened_at)",
)

_ACCOUNTS = (
    # The accounts that turns are charged to, and why an account is parked. `digest` is keyed with `account_key`.
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY,
        provider TEXT NOT NULL,
        directory TEXT NOT NULL,
        digest TEXT NOT NULL,
        last_success_at TEXT
    ) WITHOUT ROWID""",
    """CREATE TABLE parks (
        account TEXT NOT NULL,
        model TEXT NOT NULL,
        kind TEXT NOT NULL,
        reason TEXT NOT NULL,
        since REAL NOT NULL,
        until REAL,
        tries INTEGER NOT NULL,
        first TEXT,
        PRIMARY KEY (account, model)
    ) WITHOUT ROWID""",
    "INSERT INTO meta (name, value) VALUES ('account_key', lower(hex(randomblob(32))))",
)

_PAIRINGS = (
    # Users of chat networks who wait for a decision of the operator, and those who are paired.
    """CREATE TABLE pair_requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user TEXT NOT NULL,
        label TEXT NOT NULL,
        state TEXT NOT NULL,
        created_at TEXT NOT NULL,
        replied_at TEXT NOT NULL
    )""",
    """CREATE TABLE pairings (
        user TEXT PRIMARY KEY,
        label TEXT NOT NULL,
        level TEXT NOT NULL,
        workspace TEXT,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL
    ) WITHOUT ROWID""",
)

_TELEGRAM_CALLS = (
    # The bots that were used; `ready`: what waited before the first start was thrown away; `reported_seq`: the newest
    # event that the bot has reported.
    """CREATE TABLE telegram_bots (
        bot_id INTEGER PRIMARY KEY,
        first_seen_at TEXT NOT NULL,
        discarded INTEGER NOT NULL DEFAULT 0,
        ready INTEGER NOT NULL DEFAULT 0,
        reported_seq INTEGER
    )""",
    # Each update is handled in the transaction that inserts its row.
    """CREATE TABLE telegram_updates (
        bot_id INTEGER NOT NULL,
        update_id INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (bot_id, update_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX telegram_updates_by_age ON telegram_updates (at)",
    """CREATE TABLE telegram_outgoing (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat_id INTEGER,
        method TEXT NOT NULL,
        parameters TEXT NOT NULL,
        need INTEGER NOT NULL,
        created_at TEXT NOT NULL,
        state TEXT NOT NULL,
        lost_answers INTEGER NOT NULL,
        subject TEXT,
        about TEXT
    )""",
    """CREATE TABLE telegram_dropped (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        chat_id INTEGER,
        method TEXT NOT NULL,
        reason TEXT NOT NULL
    )""",
    "CREATE TABLE telegram_counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE telegram_chats (
        chat_id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        title TEXT NOT NULL,
        seen_at TEXT,
        migrated_to INTEGER,
        closed_until REAL NOT NULL
    )""",
)

_TELEGRAM_CHATS = (
    # The object that a sent message shows, so that a reply to the message finds it.
    """CREATE TABLE telegram_messages (
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        thread_id INTEGER,
        about TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (chat_id, message_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX telegram_messages_of_objects ON telegram_messages (about)",
    # Buttons that have not been pressed, in the order of their rowids. The nonce itself is only in Telegram.
    """CREATE TABLE telegram_buttons (
        digest TEXT PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        user_id INTEGER NOT NULL,
        action TEXT NOT NULL,
        about TEXT NOT NULL,
        expires_at TEXT
    )""",
    "CREATE INDEX telegram_buttons_of_objects ON telegram_buttons (about)",
    # The choices on a card before the answer is complete.
    """CREATE TABLE telegram_drafts (
        about TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        answers TEXT NOT NULL,
        ticked TEXT NOT NULL,
        page INTEGER NOT NULL,
        reason_from INTEGER,
        PRIMARY KEY (about, chat_id)
    ) WITHOUT ROWID""",
    # Texts of people on their way to sessions, by the number of the message that each became.
    """CREATE TABLE telegram_texts (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        text_id INTEGER NOT NULL,
        thread_id INTEGER,
        user TEXT NOT NULL,
        is_told INTEGER NOT NULL
    )""",
    # The preferences of chats. A mute of the session '' mutes the whole chat.
    """CREATE TABLE telegram_follows (
        chat_id INTEGER NOT NULL,
        session_id TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (chat_id, session_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX telegram_follows_of_sessions ON telegram_follows (session_id)",
    """CREATE TABLE telegram_mutes (
        chat_id INTEGER NOT NULL,
        session_id TEXT NOT NULL,
        until TEXT NOT NULL,
        PRIMARY KEY (chat_id, session_id)
    ) WITHOUT ROWID""",
    # The topic of each session. The row says `making` before the call that makes the topic.
    """CREATE TABLE telegram_topics (
        session_id TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        state TEXT NOT NULL,
        calls INTEGER NOT NULL,
        thread_id INTEGER,
        title TEXT NOT NULL,
        is_closed INTEGER NOT NULL,
        PRIMARY KEY (session_id, chat_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX telegram_topics_of_threads ON telegram_topics (chat_id, thread_id)",
    # The message that shows the progress of a session in a chat.
    """CREATE TABLE telegram_progress (
        session_id TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        message_id INTEGER,
        shown TEXT NOT NULL,
        is_live INTEGER NOT NULL,
        PRIMARY KEY (session_id, chat_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX telegram_progress_live ON telegram_progress (session_id) WHERE is_live",
    # The first group of the configuration, as Telegram described it last.
    """CREATE TABLE telegram_forums (
        chat_id INTEGER PRIMARY KEY,
        is_forum INTEGER NOT NULL,
        can_manage INTEGER NOT NULL,
        owners TEXT NOT NULL,
        is_told INTEGER NOT NULL
    )""",
)

_SEARCH = (
    # The texts that `sm search` finds. `source` tells the texts of a session apart, so that none is added twice.
    """CREATE TABLE search_texts (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        type TEXT NOT NULL,
        at TEXT NOT NULL,
        source TEXT NOT NULL,
        text TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX search_texts_of_sources ON search_texts (session_id, source)",
    "CREATE VIRTUAL TABLE search_index USING fts5 (text, content = 'search_texts', content_rowid = 'id')",
    """CREATE TRIGGER search_texts_added AFTER INSERT ON search_texts BEGIN
        INSERT INTO search_index (rowid, text) VALUES (NEW.id, NEW.text);
    END""",
    """CREATE TRIGGER search_texts_removed AFTER DELETE ON search_texts BEGIN
        INSERT INTO search_index (search_index, rowid, text) VALUES ('delete', OLD.id, OLD.text);
    END""",
    # The transaction that writes a text makes it findable.
    """CREATE TRIGGER search_messages AFTER INSERT ON messages
    WHEN NEW.text <> ''
        AND (NEW.session_id IS NOT NULL OR EXISTS (SELECT 1 FROM sessions WHERE id = NEW.sender))
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (coalesce(NEW.session_id, NEW.sender), 'message', NEW.created_at, 'message ' || NEW.id, NEW.text);
    END""",
    """CREATE TRIGGER search_requests AFTER INSERT ON requests
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (NEW.session_id, 'request', NEW.created_at, 'request ' || NEW.id,
            trim(coalesce(NEW.tool, '') || ' ' || coalesce(NEW.arguments, '') || ' ' || NEW.questions));
    END""",
    """CREATE TRIGGER search_checkpoints AFTER INSERT ON checkpoints
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (NEW.session_id, 'checkpoint', NEW.timestamp, 'checkpoint ' || NEW.id, NEW.message);
    END""",
    """CREATE TRIGGER search_prompts AFTER INSERT ON sessions WHEN NEW.spawn_prompt IS NOT NULL
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (NEW.id, 'prompt', NEW.created_at, 'prompt', NEW.spawn_prompt);
    END""",
    """CREATE TRIGGER search_notes AFTER UPDATE OF note ON sessions
    WHEN NEW.note IS NOT NULL AND NEW.note IS NOT OLD.note
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (NEW.id, 'note', NEW.status_at, 'note ' || NEW.note, NEW.note);
    END""",
    """CREATE TRIGGER search_results AFTER UPDATE OF completion_message ON sessions
    WHEN NEW.completion_message IS NOT NULL AND NEW.completed_at IS NOT NULL
        AND NEW.completion_message IS NOT OLD.completion_message
    BEGIN
        INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)
        VALUES (NEW.id, 'result', NEW.completed_at, 'result ' || NEW.completed_at, NEW.completion_message);
    END""",
    """CREATE TRIGGER search_removed AFTER UPDATE OF removed ON sessions WHEN NEW.removed = 1
    BEGIN
        DELETE FROM search_texts WHERE session_id = NEW.id;
    END""",
)

TABLES: tuple[str, ...] = (
    *_INSTANCE,
    *_SESSIONS,
    *_EVENTS,
    *_OUTBOX,
    *_MESSAGES,
    *_REQUESTS,
    *_USAGE,
    *_SUMS,
    *_WARNINGS,
    *_ACCOUNTS,
    *_PAIRINGS,
    *_TELEGRAM_CALLS,
    *_TELEGRAM_CHATS,
    *_SEARCH,
)
