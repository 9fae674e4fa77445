"""The library under fire: random incidents, and reports from the field, in virtual time."""
