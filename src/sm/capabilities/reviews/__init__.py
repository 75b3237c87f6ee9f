"""Reviews: comments on the changes of a session, which go to its agent in rounds."""
