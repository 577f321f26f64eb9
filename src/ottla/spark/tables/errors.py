"""What can be wrong with a table; each error names the table and what can be done.

ValueError
    BadTable            a name, a format or an option that says nothing that we understand
    SchemaMismatch      rows whose columns do not fit the table's
RuntimeError
    TableNotFound       nothing was ever written to it
    VersionGone         a commit that vacuum has removed
    TableChanged        rows that a stream has read were replaced
    CommitConflict      somebody else has committed meanwhile; the caller looks again
"""


class BadTable(ValueError):
    pass


class SchemaMismatch(ValueError):
    pass


class TableNotFound(RuntimeError):
    pass


class VersionGone(RuntimeError):
    pass


class TableChanged(RuntimeError):
    pass


class CommitConflict(RuntimeError):
    pass
