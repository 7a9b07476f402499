"""Reads every view in each of clickhouse-connect's forms, and prints the number of views."""

import os

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError
from sqlalchemy import create_engine, inspect

address = os.environ["ADDRESS"]
host, port = address.split(":")
client = clickhouse_connect.get_client(host=host, port=int(port))
views = client.command("SHOW TABLES").split()
for view in views:
    rows = client.query(f"SELECT * FROM {view} LIMIT 100").result_rows
    frame = client.query_df(f"SELECT * FROM {view} LIMIT 100")
    table = client.query_arrow(f"SELECT * FROM {view} LIMIT 100")
    assert 0 < len(rows) == len(frame) == table.num_rows, view
    with client.query_row_block_stream(f"SELECT * FROM {view} LIMIT 100") as blocks:
        assert sum(len(block) for block in blocks) == len(rows), view
for statement in ("SELECT * FROM muster.network_people", "DROP VIEW people"):
    try:
        client.command(statement)
    except DatabaseError:
        continue
    raise AssertionError(statement)
assert sorted(inspect(create_engine(f"clickhousedb://{address}/muster_views")).get_table_names()) == sorted(views)
print(len(views))
