"""The classifier of final messages."""

from sm.monitor.completion import Ending, TurnFacts, classify, summary


def test_classify_reads_the_example_of_the_documents_as_done() -> None:
    assert classify("Done. All tests passing.", facts=TurnFacts(tools_used=1)).ending is Ending.DONE


def test_summary_is_the_first_paragraph_without_marks() -> None:
    assert summary("## Parser\nfixed\n\nMore text.") == "Parser fixed"
