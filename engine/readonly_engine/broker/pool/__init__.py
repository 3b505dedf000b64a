"""The pool: members, bindings, claims and redirects."""
