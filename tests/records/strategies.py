"""Records as hypothesis makes them."""

from hypothesis import strategies as st

from ottla.records.record import Header, Record

FIELD = st.none() | st.binary(max_size=60) | st.binary(min_size=100, max_size=9000)
TIMESTAMP = st.integers(-1, 1 << 45)
HEADERS: st.SearchStrategy[list[Header]] = st.lists(
    st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4
)
RECORD = st.builds(
    Record,
    key=st.none() | st.binary(max_size=80),
    value=FIELD,
    timestamp=TIMESTAMP,
    headers=HEADERS,
)
RECORDS = st.lists(RECORD, min_size=1, max_size=90)
CODEC = st.integers(0, 4)
