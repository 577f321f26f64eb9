-- Topic words -> streaming table -> materialized view -> topic counts.

CREATE STREAMING TABLE words AS
SELECT CAST(value AS STRING) AS word, timestamp FROM STREAM(words_topic);

CREATE MATERIALIZED VIEW word_counts AS
SELECT word, count(*) AS count FROM words GROUP BY word;

-- A view read as a stream gives the rows that are new or have changed.
CREATE FLOW count_changes AS INSERT INTO counts BY NAME
SELECT word AS key, to_json(struct(word, count)) AS value FROM STREAM(word_counts);
