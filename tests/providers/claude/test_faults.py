"""The faults in the failed turns of claude 2.1.197. Texts: measured, or copied from the program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.faults import Fault, FaultKind
from sm.core.text import folded
from sm.providers.claude.faults import read_fault

AT = 1_795_608_000.0  # 2026-11-25T12:00:00Z
DOT = "\u00b7"


@pytest.mark.parametrize(
    ("text", "name", "model"),
    [
        ("You've hit your session limit", "session limit", ""),
        ("You\u2019ve hit your session limit", "session limit", ""),
        ("You've hit your weekly limit", "weekly limit", ""),
        ("You've hit your Opus limit", "Opus limit", "opus"),
        ("You've hit your Sonnet limit", "Sonnet limit", "sonnet"),
        ("You've hit your Fable 5 limit", "Fable 5 limit", "fable"),
        ("You've hit your usage limit", "usage limit", ""),
        ("You've hit your limit", "limit", ""),
        ("You've hit your org's monthly usage limit", "org's monthly usage limit", ""),
        ("You've reached your weekly limit", "weekly limit", ""),
        ("You're out of usage credits", "usage credits", ""),
    ],
)
def test_used_up_limit_has_its_name_its_model_and_its_reset(text: str, name: str, model: str) -> None:
    whole = f"{text} {DOT} resets 3pm (UTC)"
    expected = whole.replace("\u2019", "'")
    assert read_fault("rate_limit", whole, AT) == Fault(FaultKind.QUOTA, expected, name, AT + 3 * 3600, model)
    assert read_fault("rate_limit", text, AT).resets_at is None


def test_spend_limit_of_one_model_binds_that_model() -> None:
    text = "You're out of usage credits. Run /usage-credits to keep using Fable 5 or /model to switch models."
    assert read_fault("rate_limit", text, AT).model == "fable"
    assert read_fault("rate_limit", text, AT).kind is FaultKind.QUOTA


@pytest.mark.parametrize(
    ("error", "text", "status", "kind"),
    [
        ("rate_limit", f"API Error: Server is temporarily limiting requests (not your usage limit) {DOT} x", 429,
         FaultKind.THROTTLED),
        ("rate_limit", f"API Error: Request rejected (429) {DOT} You've hit your session limit", 429,
         FaultKind.THROTTLED),
        ("rate_limit", "Opus is experiencing high load, please use /model to switch to Sonnet", None,
         FaultKind.OVERLOADED),
        ("rate_limit", f"API Error: Usage credits required for 1M context {DOT} run /usage-credits", 429,
         FaultKind.MODEL),
        ("rate_limit", f"Your org is out of usage {DOT} contact your admin", 429, FaultKind.BILLING),
        ("rate_limit", "Your seat type doesn't include usage credits", 429, FaultKind.BILLING),
        ("rate_limit", "No response requested.", 429, FaultKind.THROTTLED),
        ("server_error", "API Error: Repeated 529 Overloaded errors. The API is at capacity", None,
         FaultKind.OVERLOADED),
        ("server_error", "API Error: 529 scripted. This is a server-side issue", 529, FaultKind.OVERLOADED),
        ("server_error", "API Error: scripted.", 529, FaultKind.OVERLOADED),
        ("overloaded", "anything", None, FaultKind.OVERLOADED),
        ("server_error", "API Error: 500 scripted. This is a server-side issue", 500, FaultKind.SERVER),
        ("server_error", "API Error: Connection to the API was lost (ECONNRESET).", None, FaultKind.NETWORK),
        ("server_error", "Request timed out", None, FaultKind.NETWORK),
        ("unknown", "API Error: Unable to connect to API (ConnectionRefused)", None, FaultKind.NETWORK),
        ("unknown", "API Error: Connection error.", None, FaultKind.NETWORK),
        ("unknown", "API Error: 418 teapot", 418, FaultKind.REQUEST),
        ("unknown", "API Error: 502 bad gateway", 502, FaultKind.SERVER),
        ("unknown", "API Error", None, FaultKind.UNKNOWN),
        ("authentication_failed", f"Please run /login {DOT} API Error: 401 OAuth token has expired", 401,
         FaultKind.LOGIN),
        ("authentication_failed", f"Invalid API key {DOT} Fix external API key", None, FaultKind.LOGIN),
        ("oauth_org_not_allowed", "Your organization has disabled Claude subscription access", 403,
         FaultKind.LOGIN),
        ("invalid_request", f"Your organization has disabled API key authentication {DOT} Unset", 403,
         FaultKind.LOGIN),
        ("billing_error", "Credit balance is too low", 400, FaultKind.BILLING),
        ("invalid_request", f"Prompt is too long {DOT} the request is ~210000 tokens (limit 200000)", 400,
         FaultKind.CONTEXT_FULL),
        ("invalid_request", "API Error: 400 scripted", 400, FaultKind.REQUEST),
        ("max_output_tokens", "API Error: the response exceeded the output token maximum", None,
         FaultKind.OUTPUT_LIMIT),
        ("account_on_hold", "Your account is on hold", 403, FaultKind.BILLING),
        ("verification_required", "API Error: Verify your account", 403, FaultKind.LOGIN),
        ("cloud_credential_error", f"API Error: Could not load AWS credentials {DOT} x", None,
         FaultKind.LOGIN),
        ("authentication_failed", f"Not logged in {DOT} Please run /login", None, FaultKind.LOGIN),
        ("new_kind_of_a_later_version", "API Error: something", None, FaultKind.UNKNOWN),
        (None, None, None, FaultKind.UNKNOWN),
        ({"a": 1}, ["x"], True, FaultKind.UNKNOWN),
    ],
)  # fmt: skip
def test_fault_has_the_kind_of_its_error_and_text(
    error: object, text: object, status: object, kind: FaultKind
) -> None:
    fault = read_fault(error, text, AT, status)
    assert fault.kind is kind
    assert fault.resets_at is None


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (
            "There's an issue with the selected model (claude-opus-4-8[1m]). It may not exist",
            "claude-opus-4-8[1m]",
        ),
        ("Claude Opus is not available with the Claude Pro plan.", "opus"),
        ("The model my-model is not available on your bedrock deployment.", "my-model"),
    ],
)
def test_fault_of_a_model_names_the_model(text: str, model: str) -> None:
    fault = read_fault("model_not_found", text, AT)
    assert (fault.kind, fault.model) == (FaultKind.MODEL, model)


@pytest.mark.parametrize("error", ["server_error", "unknown", "invalid_request", "billing_error", ""])
def test_limit_message_is_no_quota_when_the_error_is_another(error: str) -> None:
    text = f"You've hit your session limit {DOT} resets 3pm (UTC)"
    assert read_fault(error, text, AT).kind is not FaultKind.QUOTA


@given(st.text(), st.text(), st.one_of(st.none(), st.integers(), st.text()))
def test_fault_of_any_text_is_short_and_on_one_line(error: str, text: str, status: object) -> None:
    fault = read_fault(error, text, AT, status)
    assert len(fault.text) <= 300
    assert fault.text == folded(fault.text)


def test_fault_of_a_huge_text_is_read_in_a_moment() -> None:
    for text in ("You've hit your " * 100_000, "resets " * 1_000_000, "a" * 10_000_000):
        assert len(read_fault("rate_limit", text, AT).text) <= 300
