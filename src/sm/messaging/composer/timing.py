"""Defines the time limits of the composer in seconds, and its limits on retries."""

TOOL_WAITS_S = 0.4
"""How long a delivery may delay the start of a tool."""
TOOL_SETTLES_S = 0.5
"""How long after a tool's start its dialog may open, and how long an agent may take to start a turn with its own queue.
An Enter in between would overtake the queue and leave a copy in the box."""
QUIET_S = 3.0
"""How long a person's draft must be unchanged before it is put aside."""
SHOWS_WITHIN_S = 3.0
"""How long a box may need to show a paste while the box is held."""
SHOWS_AT_ALL_S = 60.0
"""Time after which a paste is given up. It may still appear: a stopped agent reads its input later."""
DRAWN_WITHIN_S = 0.2
"""How long an agent may take to draw a person's key. An Enter in between would submit text that no box showed."""
LOST_AFTER_S = 3.0
"""How long an open box must be empty, after the agent has read all input, until a paste counts as lost."""
PASTES_MAX = 4
FIRST_TURN_LOOK_S = 0.25
"""Pause between two looks whether an agent has accepted its first prompt and drawn its box anew."""
AGAIN_AFTER_S = 1.5
"""Time after which an Enter without evidence counts as lost. If its hook comes later, the message arrives twice."""
AGAIN_OVER_A_DRAFT_S = 10.0
"""The same where a draft was put aside. The first Enter restores the draft, so a second Enter could send the draft."""
ENTERS_MAX = 5
ARRIVES_WITHIN_S = 15.0
"""How long evidence may take after the message has left the box."""
MIXED_S = 15.0
"""How long the box may hold the message together with other text, and how long the keys of a person that do not change
the box may delay an Enter."""
READS_WITHIN_S = 2.0
"""How long after its prompt hook an agent may take to write into its transcript where the message is."""
REFUSED_WITHIN_S = 30.0
"""How long the hooks of a user may take to refuse a message that the hook of sm has reported."""
LEFT_S = 3.0
"""How long evidence may take for a message that an earlier daemon typed."""
LEFT_COMES_WITHIN_S = 600.0
"""How long a message that was given up unseen may still appear in the box."""
RETURNS_WITHIN_S = 2.0
"""How long after an interrupt the agent may put the message back into its box."""
PUT_BACK_SETTLES_S = 0.5
"""How long a returned message must be in the box before it is entered again. A person may have recalled a message that
the agent works on or has answered, and the agent's reports come later than its drawing."""
INTERRUPTED_WITHIN_S = 10.0
"""How long a stopped agent may need until the interrupt takes effect and its screen is readable."""
GARBLED_S = 2.0
"""How long a screen may be unknown before it is redrawn."""
FIRST_LOOK_S = 0.005
LOOK_S = 0.02
SLOW_LOOK_S = 0.25
PUT_ASIDE_WITHIN_S = 1.0
DRAFT_LOOK_S = 0.5
TOOLS_WAITED_FOR = 3
DRAWN_AGAIN_AFTER_S = 60.0
