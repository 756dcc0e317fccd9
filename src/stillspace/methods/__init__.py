"""Methods: they choose releases from earlier releases. None of them ever sees a row."""
