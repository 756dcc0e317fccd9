"""The parts of algorithms: frozen public facts; rows and randomness are arguments."""
