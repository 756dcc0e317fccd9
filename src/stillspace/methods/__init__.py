"""Methods in the sense of `stillspace.adaptive`: they choose releases and never see a row."""
