"""The order of the comments of a round."""

from itertools import permutations

from sm.capabilities.reviews.model import Comment, CommentPlace, Side
from sm.capabilities.reviews.rules import in_order, place_text


def test_comments_are_in_the_order_of_files_and_lines_with_the_old_line_before_the_new_one() -> None:
    places = [
        CommentPlace(),
        CommentPlace("a.py"),
        CommentPlace("a.py", Side.NEW, 2, 2),
        CommentPlace("a.py", Side.OLD, 3, 3),
        CommentPlace("a.py", Side.NEW, 1, 3),
        CommentPlace("a.py", Side.OLD, 9, 9),
        CommentPlace("b.py", Side.NEW, 1, 1),
    ]
    comments = [Comment(n, "1a2b3c4d", "operator", 0, 0, place, "", "x") for n, place in enumerate(places)]
    for mixed in permutations(comments, 7):
        if in_order(mixed) != comments:
            raise AssertionError([place_text(comment.place) for comment in in_order(mixed)])
