// Package analyst runs SQL over the analysts' views by ClickHouse's HTTP
// interface and hands the result on as the server writes it: a table, CSV,
// Parquet or any other of its formats. Statements are sent with readonly set,
// so that none changes anything. A result that breaks off is an error.
package analyst
