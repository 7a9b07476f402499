// Package analyst runs SQL on the analyst views through the ClickHouse HTTP interface, and
// passes the result on in the server's format: a table, CSV, Parquet or any other ClickHouse
// format. Statements run read-only. A truncated result is an error.
package analyst
