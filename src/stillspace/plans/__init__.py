"""What a fit does with the rows, as data: releases, ledgers, and the kinds of plan."""
